#include "media/metadata.h"

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "media/files.h"
#include "media/name_pattern.h"
#include "media/picture/png.h"
#include "media/video/gif_writer.h"
#include "media/video/video_input.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMaxPngBytes = uint64_t(512) << 20;

}  // namespace

std::string read_comment(const fs::path& given) {
  av::quiet();
  std::error_code ec;
  fs::path path = given;
  if (fs::is_directory(given, ec) || (!fs::exists(given, ec) && parse_name_pattern(given)))
    path = name_pattern_of(given).name(0);
  check_readable_file(path);
  char magic[8] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  if (std::memcmp(magic, "\x89PNG", 4) == 0)
    return png_comment(read_file_bytes(path, kMaxPngBytes), path.string());
  if (std::memcmp(magic, "GIF8", 4) == 0) return gif_comment(path);
  return av::comment_of(*av::open_input(path));
}

}  // namespace tachy
