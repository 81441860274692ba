// Reads back from a file the settings that VideoWriter embeds (VideoOptions::comment).
//
//   mp4    the iTunes "comment" tag        webm   a COMMENT tag
//   gif    a comment extension block       png    a tEXt (ASCII) or iTXt (UTF-8) chunk named "Comment"
#pragma once

#include <filesystem>
#include <string>

namespace tachy {

// Returns an empty text if the file has none. A folder or a pattern stands for its first picture. Throws
// not_found, io or corrupt.
std::string read_comment(const std::filesystem::path& path);

}  // namespace tachy
