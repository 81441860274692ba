// Ctrl-C and SIGTERM. The first one asks the command to stop (g_cancel). Some work cannot stop at once: a
// library that compiles a kernel, a page-locked allocation, memory that is freed piece by piece, one long
// operation on a CPU. The process does not wait for it: after a while it ends itself, with the same exit code
// and message, and removes its temporary files. A second signal ends it at once.
#pragma once

#include <string>

namespace tachy::cli {

void install_interrupt();

// Sets the text that follows "cancelled" if the process has to end itself. It says where the run can be
// resumed.
void set_cancel_note(std::string note);

// Says that the process is about to end by itself, with this code. From here on nothing else prints anything,
// and if releasing its memory takes long, a signal ends the wait for that, too. Call this once the last
// message is printed.
void set_exit_code(int code);

}  // namespace tachy::cli
