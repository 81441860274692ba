// The standard streams of a program, and whether anybody is at their other end.
#pragma once

#include <cstdio>
#include <string_view>

namespace tachy::os {

bool is_terminal(std::FILE* stream);
// Says whether nobody can receive output to the stream: its pipe has no reader, or its terminal was closed.
bool reader_gone(std::FILE* stream);

// Writes to standard error without the stream's buffer. A signal handler may call this; success is not
// reported.
void write_to_standard_error(std::string_view text) noexcept;

// If the program was started with a standard stream closed, the next file that is opened would take its place
// and receive lines of text. This function puts an unusable file there, so that reading and writing fail as
// before.
void occupy_standard_streams();

}  // namespace tachy::os
