// Reads the settings that VideoWriter embeds (VideoOptions::comment) back from the file.
//
//   mp4    the iTunes "comment" tag        webm   a COMMENT tag
//   gif    a comment extension block       png    a tEXt (ASCII) or iTXt (UTF-8) chunk named "Comment"
#pragma once

#include <filesystem>
#include <string>

namespace tachy {

// Returns an empty text when the file holds none. A folder or a pattern stands for its first picture. Throws
// not_found, io, corrupt.
std::string read_comment(const std::filesystem::path& path);

}  // namespace tachy
