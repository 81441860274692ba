// The streams that a program is started with, and whether a person is at their other end.
#pragma once

#include <cstdio>
#include <string_view>

namespace tachy::os {

bool is_terminal(std::FILE* stream);
// Says whether output to the stream reaches nobody: a pipe without a reader, or a terminal that was closed.
bool reader_gone(std::FILE* stream);

// Writes to standard error, past the stream's buffer. A signal handler may call this; it does not report
// success.
void write_to_standard_error(std::string_view text) noexcept;

// If the program was started with a standard stream closed, the next file that is opened would take its
// place, and a line of text would go into it. This puts an unusable file there: reading or writing fails as
// before.
void occupy_standard_streams();

}  // namespace tachy::os
