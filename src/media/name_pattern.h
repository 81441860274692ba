// Names of picture sequences: "out_%04d.png", or a folder, which means "folder/frame_%04d.png".
//
// The pattern is parsed here and never passed to printf. Private to src/media.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tachy {

struct NamePattern {
  std::filesystem::path folder;  // "." for a bare name
  std::string prefix, suffix;    // before and after the number
  int digits = 4;                // the least number of digits
  bool whole_folder = false;     // the name was a folder's, which is made if it is missing

  std::filesystem::path name(int64_t index) const;
};

// Returns nothing if the file name has no %d or %0Nd. Throws invalid_argument for any other use of %.
std::optional<NamePattern> parse_name_pattern(const std::filesystem::path& path);

// Accepts a pattern or a folder.
NamePattern name_pattern_of(const std::filesystem::path& path);

}  // namespace tachy
