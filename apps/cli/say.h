// Lines of text to standard output or standard error, whoever reads them, and what happens when nobody does any more.
//
// A reader that has gone away (`tachyscope … | head`) is no error worth a word. A command whose product is a file makes it to the
// end; one whose product is what it prints ends at once. Either ends as SIGPIPE ends any program, which a shell calls 141.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tachy::cli {

// Prints the text and flushes. Throws std::system_error where it cannot be written, unless the reader has gone away.
void say(std::FILE* to, std::string_view text);

// Whether say() has found a reader gone.
bool said_to_nobody();

// Whether an error's text says that standard output has no reader: where a video goes there (`-o - | head`).
bool is_of_closed_pipe(const std::string& error);

// Ends the process as the signal SIGPIPE would, without temporary files.
[[noreturn]] void end_by_closed_pipe();

}  // namespace tachy::cli
