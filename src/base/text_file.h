// Text that people write: prompt files, scripts of actions, settings, configs.
//
// Editors save it in several ways, all of which are read alike: UTF-8 with or without a byte order mark, and
// UTF-16 of either byte order with one; lines that end in LF, CRLF or CR. Anything else is refused with file,
// line and byte, because a text that is read in the wrong encoding is another text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tachy {

inline constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

// The text of a file, or of a pipe, decoded by decode_text(). Throws not_found or io with the system's
// reason, and corrupt.
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes = kMostTextBytes);

// Returns UTF-8 whose lines end in LF, without byte order marks (files that were joined have one at the
// beginning of a later line). Throws corrupt: "NAME: not UTF-8 at line 3, byte 17 (0xC4); save it as UTF-8";
// the bytes of a line count from 1.
std::string decode_text(std::string_view bytes, std::string_view name);

// The lines of such a text; the last line end does not begin another line.
std::vector<std::string_view> lines_of(std::string_view text);

struct TextPlace {
  size_t line = 1, column = 1;  // column: in characters
};
// The place of a byte in such a text.
TextPlace place_in(std::string_view text, size_t byte);

}  // namespace tachy
