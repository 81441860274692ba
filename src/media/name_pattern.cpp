#include "media/name_pattern.h"

#include <cctype>

#include "base/error.h"
#include "media/files.h"

namespace tachy {
namespace fs = std::filesystem;

fs::path NamePattern::name(int64_t index) const {
  return folder / fmt::format("{}{:0{}}{}", prefix, index, digits, suffix);
}

std::optional<NamePattern> parse_name_pattern(const fs::path& path) {
  std::string name = path.filename().string();
  size_t at = name.find('%');
  if (at == name.npos) return std::nullopt;
  NamePattern out;
  size_t end = at + 1;
  out.digits = 1;
  // "%d", "%4d" and "%04d" all mean zero-padded numbers here; a width has one digit.
  if (end < name.size() && name[end] == '0') ++end;
  if (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
    out.digits = name[end++] - '0';
  bool one = end < name.size() && name[end] == 'd' && name.find('%', end) == name.npos;
  require(one && out.digits >= 1, "{}: expected one %d or %04d in the name (a width of 1 to 9), got '{}'",
          path.string(), name);
  out.folder = folder_of(path);
  out.prefix = name.substr(0, at);
  out.suffix = name.substr(end + 1);
  return out;
}

NamePattern name_pattern_of(const fs::path& path) {
  std::error_code ec;
  if (path.filename().empty() || fs::is_directory(path, ec)) {
    // Removes the slash at the end, which create_directory and remove do not accept.
    fs::path folder = path.filename().empty() ? path.parent_path() : path;
    return {folder, "frame_", ".png", 4, true};
  }
  auto pattern = parse_name_pattern(path);
  require(pattern.has_value(), "{}: expected a pattern such as out_%04d.png or a folder", path.string());
  return *pattern;
}

}  // namespace tachy
