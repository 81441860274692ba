#include "media/video/gif_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace tachy {
namespace {

constexpr int64_t kMaxKeptBytes = int64_t(2) << 30;
constexpr int kPaletteColors = 255;  // the 256th means "as in the previous frame"
constexpr size_t kMaxCommentBytes = 16 << 20;

av::OutputSetup gif_setup(const std::filesystem::path& path, int width, int height,
                          const VideoOptions& options, AVRational rate) {
  av::OutputSetup setup;
  setup.path = path;
  setup.muxer = "gif";
  setup.encoder = "gif";
  setup.encoder_hint = "write .mp4, .webm or .png instead";
  setup.format = AV_PIX_FMT_PAL8;
  setup.width = width;
  setup.height = height;
  setup.rate = rate;
  setup.cancel = options.cancel;
  setup.muxer_options = {{"loop", options.loop ? "0" : "-1"}};
  return setup;
}

// FFmpeg's muxer does not write comments. An extension block may be anywhere, so it is inserted before the
// last byte, the trailer.
void append_comment(const PartFile& part, const std::string& comment) {
  std::fstream file(part.path(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-1, std::ios::end);
  check(file && file.get() == 0x3b, ErrorCode::internal, "{}: a GIF was written without its trailer",
        part.final_path().string());
  std::string block("\x21\xfe", 2);
  for (size_t at = 0; at < comment.size(); at += 255) {
    std::string_view piece = std::string_view(comment).substr(at, 255);
    block += char(piece.size());
    block += piece;
  }
  block += std::string("\0\x3b", 2);
  file.seekp(-1, std::ios::end);
  errno = 0;
  file.write(block.data(), std::streamsize(block.size()));
  file.close();
  if (!file)
    fail_io(part.final_path(), "write", errno ? last_reason() : std::make_error_code(std::errc::io_error));
}

}  // namespace

GifWriter::GifWriter(std::filesystem::path path, int width, int height, VideoOptions options, AVRational rate)
    : VideoWriter(path, width, height, options), output_(gif_setup(path, width, height, options, rate)) {}

std::unique_ptr<VideoWriter::Ready> GifWriter::prepare_frame(RgbView frame) {
  auto ready = std::make_unique<Copy>();
  ready->frame = RgbFrame(width_, height_);
  for (int y = 0; y < height_; ++y) std::memcpy(ready->frame.row(y), frame.row(y), size_t(width_) * 3);
  return ready;
}

void GifWriter::write_frame(Ready& frame) {
  int64_t bytes = int64_t(width_) * height_ * 3;
  require(bytes * (frames_ + 1) <= kMaxKeptBytes,
          "{}: the frames of a GIF are kept in memory, at most {} of {}x{}; write .mp4 or .webm instead",
          path_.string(), kMaxKeptBytes / bytes, width_, height_);
  kept_.push_back(std::move(static_cast<Copy&>(frame).frame));
  histogram_.add(kept_.back().view());
}

void GifWriter::finish_file() {
  Palette palette = make_palette(histogram_, kPaletteColors);
  PaletteMapper mapper(palette);
  for (size_t i = 0; i < kept_.size(); ++i) {
    AVFrame& picture = output_.picture();
    mapper.map(kept_[i].view(), picture.data[0], picture.linesize[0]);
    auto* entries = reinterpret_cast<uint32_t*>(picture.data[1]);
    std::fill_n(entries, 256, 0u);  // alpha 0: transparent
    for (size_t k = 0; k < palette.colors.size(); ++k) {
      const auto& c = palette.colors[k];
      entries[k] = 0xff000000u | uint32_t(c[0]) << 16 | uint32_t(c[1]) << 8 | c[2];
    }
    output_.send(picture, int64_t(i));
    kept_[i] = {};
  }
  output_.close();
  if (!options_.comment.empty()) append_comment(output_.part(), options_.comment);
  output_.part().publish();
  sync_folder(folder_of(path_));
}

std::string gif_comment(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  auto byte = [&] {
    int value = file.get();
    check(value >= 0, ErrorCode::corrupt, "{}: GIF ends before its trailer (truncated?)", path.string());
    return value;
  };
  auto skip = [&](int64_t count) { file.seekg(count, std::ios::cur); };
  // A sub-block is a length byte and as many bytes. A length of 0 ends the list.
  auto sub_blocks = [&](std::string* out) {
    while (int size = byte()) {
      if (out == nullptr) {
        skip(size);
        continue;
      }
      check(out->size() < kMaxCommentBytes, ErrorCode::corrupt, "{}: GIF comment larger than {} bytes",
            path.string(), kMaxCommentBytes);
      for (int i = 0; i < size; ++i) *out += char(byte());
    }
  };
  auto color_table = [](int flags) -> int64_t { return flags & 0x80 ? int64_t(3) << ((flags & 7) + 1) : 0; };

  skip(6 + 4);
  int screen_flags = byte();
  skip(2 + color_table(screen_flags));
  std::string comment;
  for (;;) {
    int kind = byte();
    if (kind == 0x3b) return comment;
    if (kind == 0x21) {
      sub_blocks(byte() == 0xfe ? &comment : nullptr);
    } else if (kind == 0x2c) {
      skip(8);
      int image_flags = byte();
      skip(color_table(image_flags) + 1);
      sub_blocks(nullptr);
    } else {
      fail(ErrorCode::corrupt, "{}: unknown GIF block 0x{:02x} before byte {}", path.string(), kind,
           int64_t(file.tellg()));
    }
  }
}

}  // namespace tachy
