#include "media/video/frames_file.h"

#include <array>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "media/picture/image_header.h"
#include "media/picture/png.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tachyscope frames 1\n";

struct Packed final : VideoWriter::Ready {
  std::vector<uint8_t> png;
  size_t bytes() const override { return png.size(); }
};

class Reader {
 public:
  Reader(const fs::path& path, const FramesFile& expected)
      : name_(path.string()), in_(path, std::ios::binary), left_(expected.bytes) {
    if (!in_) fail_io(path, "read", last_reason());
  }

  void read(std::span<uint8_t> to) {
    check(to.size() <= left_, ErrorCode::corrupt, "{}: damaged: it ends inside a frame", name_);
    in_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    check(in_.good(), ErrorCode::io, "{}: cannot read: got {} of {} bytes", name_, in_.gcount(), to.size());
    left_ -= to.size();
    hash_.add(to);
  }
  std::vector<uint8_t> block() {
    std::array<uint8_t, 4> size{};
    read(size);
    const uint64_t bytes = size[0] | size[1] << 8 | size[2] << 16 | static_cast<uint64_t>(size[3]) << 24;
    check(bytes <= left_, ErrorCode::corrupt, "{}: damaged: a frame of {} bytes, {} are left", name_, bytes,
          left_);
    std::vector<uint8_t> out(bytes);
    read(out);
    return out;
  }
  void check_end(const std::string& sha256) {
    check(left_ == 0 && hash_.hex() == sha256, ErrorCode::corrupt,
          "{}: damaged: its SHA-256 differs from that of what was written", name_);
  }

 private:
  std::string name_;
  std::ifstream in_;
  uint64_t left_;
  Sha256 hash_;
};

RgbFrame unpack(const std::vector<uint8_t>& png, const std::string& name, int width, int height) {
  ImageHeader header;
  try {
    header = read_image_header(png, name, false);
  } catch (const Error& e) {
    fail(ErrorCode::corrupt, "{}: damaged: a frame cannot be read ({})", name, e.message());
  }
  check(header.kind == ImageKind::png && header.width == width && header.height == height, ErrorCode::corrupt,
        "{}: damaged: a frame of {}x{}, expected {}x{}", name, header.width, header.height, width, height);
  return decode_png(png, name);
}

}  // namespace

FramesWriter::FramesWriter(const fs::path& path, int width, int height)
    : VideoWriter(path, width, height, {}), part_(path) {
  add({reinterpret_cast<const uint8_t*>(kMagic.data()), kMagic.size()});
}

void FramesWriter::add(std::span<const uint8_t> bytes) {
  part_.write(bytes);
  hash_.add(bytes);
  made_.bytes += bytes.size();
}

std::unique_ptr<VideoWriter::Ready> FramesWriter::prepare_frame(RgbView frame) {
  auto ready = std::make_unique<Packed>();
  ready->png = encode_png(frame, {}, PngEffort::quick);
  return ready;
}

void FramesWriter::write_frame(Ready& frame) {
  const std::vector<uint8_t>& png = static_cast<Packed&>(frame).png;
  const std::array<uint8_t, 4> size{static_cast<uint8_t>(png.size()), static_cast<uint8_t>(png.size() >> 8),
                                    static_cast<uint8_t>(png.size() >> 16),
                                    static_cast<uint8_t>(png.size() >> 24)};
  add(size), add(png);
  ++made_.frames;
}

void FramesWriter::finish_file() {
  part_.publish();
  sync_folder(folder_of(path_));
  made_.sha256 = hash_.hex();
}

bool is_frames_file(const fs::path& path) {
  std::array<char, kMagic.size()> begin{};
  std::ifstream in(path, std::ios::binary);
  in.read(begin.data(), begin.size());
  return std::string_view(begin.data(), static_cast<size_t>(in.gcount())) == kMagic;
}

void check_frames_file(const fs::path& path, const FramesFile& expected) {
  check_readable_file(path);
  std::error_code ec;
  const uint64_t bytes = fs::file_size(path, ec);
  check(!ec, ErrorCode::io, "{}: cannot read: {}", path.string(), ec.message());
  check(bytes == expected.bytes, ErrorCode::corrupt, "{}: damaged: expected {} bytes, got {}", path.string(),
        expected.bytes, bytes);
}

void read_frames(const fs::path& path, const FramesFile& expected, int width, int height,
                 const std::function<void(RgbView)>& frame) {
  check_frames_file(path, expected);
  const std::string name = path.string();
  Reader in(path, expected);
  std::array<uint8_t, kMagic.size()> magic{};
  in.read(magic);
  check(std::equal(magic.begin(), magic.end(), kMagic.begin()), ErrorCode::corrupt,
        "{}: damaged, or written by another version", name);
  for (int64_t i = 0; i < expected.frames; ++i) {
    frame(unpack(in.block(), name, width, height).view());
  }
  in.check_end(expected.sha256);
}

}  // namespace tachy
