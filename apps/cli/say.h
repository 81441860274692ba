// Writes lines of text to standard output or standard error, and handles readers that have gone away.
//
// A reader that has gone away (`tachyscope … | head`) is not worth an error. A command that makes a file then
// continues to the end; one that only prints ends at once. Both end like any program that SIGPIPE ends, which
// a shell reports as 141.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tachy::cli {

// Prints the text and flushes. Throws std::system_error if it cannot be written, unless the reader has gone
// away.
void say(std::FILE* to, std::string_view text);

// Says whether say() has found that a reader is gone.
bool said_to_nobody();

// Says whether an error's text means that standard output has no reader, when a video goes there
// (`-o - | head`).
bool is_of_closed_pipe(const std::string& error);

// Ends the process like the signal SIGPIPE, and removes temporary files.
[[noreturn]] void end_by_closed_pipe();

}  // namespace tachy::cli
