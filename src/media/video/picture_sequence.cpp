#include "media/video/picture_sequence.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/error.h"
#include "media/files.h"
#include "media/metadata.h"
#include "media/name_pattern.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

class PictureReader final : public VideoReader {
 public:
  PictureReader(std::vector<fs::path> files, const ReadVideoOptions& options)
      : files_(std::move(files)), max_frames_(options.max_frames) {
    const ImageSize size = read_image_size(files_[0]);
    check(int64_t(size.width) * size.height <= options.max_pixels, ErrorCode::corrupt,
          "{}: {}x{} is more than {} pixels", files_[0].string(), size.width, size.height,
          options.max_pixels);
    first_ = read_image(files_[0]);
    info_.width = first_.width;
    info_.height = first_.height;
    info_.frames = int64_t(files_.size());
    info_.codec = "pictures";
    info_.pixel_format = "rgb24";
    info_.color_space = "gbr";
    if (files_[0].extension() == ".png") info_.comment = read_comment(files_[0]);
  }
  bool read(RgbFrame& out) override {
    if (next_ >= files_.size() || int64_t(next_) >= max_frames_) return false;
    out = next_ == 0 ? std::move(first_) : read_image(files_[next_]);
    check(out.width == info_.width && out.height == info_.height, ErrorCode::unsupported,
          "{}: picture of {}x{}, those before it {}x{}", files_[next_].string(), out.width, out.height,
          info_.width, info_.height);
    ++next_;
    return true;
  }

 private:
  std::vector<fs::path> files_;
  RgbFrame first_;
  int64_t max_frames_;
  size_t next_ = 0;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".webp";
}

// A file without an ending is known by its first bytes.
bool begins_as_picture(const fs::path& path) {
  if (path.has_extension()) return false;
  std::string head(12, '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.starts_with("\x89PNG\r\n\x1a\n") || head.starts_with("\xff\xd8\xff") ||
         (head.starts_with("RIFF") && head.substr(8) == "WEBP");
}

}  // namespace

std::vector<fs::path> picture_files(const fs::path& path, int64_t max_frames) {
  std::vector<fs::path> files;
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    for (const auto& entry : fs::directory_iterator(path, ec))
      if (is_picture(entry.path()) && entry.path().filename().string()[0] != '.')
        files.push_back(entry.path());
    check(!ec, ErrorCode::io, "{}: cannot list the folder: {}", path.string(), ec.message());
    std::sort(files.begin(), files.end());
    check(!files.empty(), ErrorCode::not_found, "{}: no pictures in this folder", path.string());
  } else if (auto pattern = fs::exists(path, ec) ? std::nullopt : parse_name_pattern(path)) {
    // Our pictures are counted from 0, those of other programs from 1.
    int64_t first = fs::exists(pattern->name(0), ec) ? 0 : 1;
    for (int64_t i = first; i - first < max_frames && fs::exists(pattern->name(i), ec); ++i)
      files.push_back(pattern->name(i));
    check(!files.empty(), ErrorCode::not_found, "{}: no picture {}", path.string(),
          pattern->name(0).string());
  } else if (is_picture(path) || begins_as_picture(path)) {
    check_readable_file(path);
    files.push_back(path);
  }
  return files;
}

std::unique_ptr<VideoReader> open_pictures(const fs::path& path, const ReadVideoOptions& options) {
  std::vector<fs::path> pictures = picture_files(path, options.max_frames);
  if (pictures.empty()) return nullptr;
  return std::make_unique<PictureReader>(std::move(pictures), options);
}

}  // namespace tachy
