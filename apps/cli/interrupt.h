// Ctrl-C and SIGTERM. The first one asks the command to stop (g_cancel). What cannot stop at once (a library
// that compiles a kernel, a page-locked allocation, memory that is given back piece by piece, one long
// operation on a CPU) is not waited for: a while later the process ends itself, with the same exit code and
// message, and without its temporary files. A second signal ends it at once.
#pragma once

#include <string>

namespace tachy::cli {

void install_interrupt();

// What follows "cancelled" if the process has to end itself: where the run can go on from.
void set_cancel_note(std::string note);

// The process ends by itself, with this code: from here on nothing is printed
// by others, and if it takes long to give back what it holds, that is not
// waited for either once a signal has come. Called once the last word is said.
void set_exit_code(int code);

}  // namespace tachy::cli
