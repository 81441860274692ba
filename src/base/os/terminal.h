// The streams that a program is started with, and whether somebody sits at their other end.
#pragma once

#include <cstdio>
#include <string_view>

namespace tachy::os {

bool is_terminal(std::FILE* stream);
// Whether what is written there reaches nobody: a pipe without a reader, a terminal that was closed.
bool reader_gone(std::FILE* stream);

// To standard error, past the stream's buffer. May be called in a signal handler; whether it was written is not told.
void write_to_standard_error(std::string_view text) noexcept;

// A standard stream that was closed by who started the program would be given to the next file that is opened, and a line of text
// would go into it. One that cannot be used takes its place: reading or writing there fails as before.
void occupy_standard_streams();

}  // namespace tachy::os
