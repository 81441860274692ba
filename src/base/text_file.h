// Text files that people write, such as prompts, scripts of actions, settings and configs.
//
// Editors save text in several ways, which are all read alike: UTF-8 with or without a byte order mark,
// UTF-16 of either byte order with a mark, and lines that end in LF, CRLF or CR. Anything else is refused
// with the file, the line and the byte, because text that is read in the wrong encoding says something else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tachy {

inline constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

// Returns the text of a file or a pipe, decoded by decode_text(). Throws not_found or io with the system's
// reason, or corrupt if it is not such a text.
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes = kMostTextBytes);

// Returns UTF-8 whose lines end in LF, without byte order marks (joined files have one at the beginning of a
// later line). Throws corrupt with a message such as "NAME: not UTF-8 at line 3, byte 17 (0xC4); save it as
// UTF-8", which counts the bytes of a line from 1.
std::string decode_text(std::string_view bytes, std::string_view name);

// Returns the lines of a decoded text. A line end at the very end does not begin another line.
std::vector<std::string_view> lines_of(std::string_view text);

struct TextPlace {
  size_t line = 1, column = 1;  // the column counts characters
};
// Returns the line and column of a byte in a decoded text.
TextPlace place_in(std::string_view text, size_t byte);

}  // namespace tachy
