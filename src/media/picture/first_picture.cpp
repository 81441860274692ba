#include "media/picture/first_picture.h"

#include "media/byte_reader.h"

namespace tachy {
namespace {

void put(std::vector<uint8_t>& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void put(std::vector<uint8_t>& to, std::span<const uint8_t> data) {
  to.insert(to.end(), data.begin(), data.end());
}
void put(std::vector<uint8_t>& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(uint8_t(value >> (8 * i)));
}

// Writes RIFF, VP8X if there is an alpha plane (ALPH may stand before a VP8 only after VP8X), then the
// frame's own chunks.
std::vector<uint8_t> still_webp(std::span<const uint8_t> chunks, int width, int height) {
  std::vector<uint8_t> out;
  const bool alpha = starts_with(chunks, 0, "ALPH");
  put(out, "RIFF"), put(out, 4 + (alpha ? 18 : 0) + chunks.size(), 4), put(out, "WEBP");
  if (alpha) {
    put(out, "VP8X"), put(out, 10, 4), put(out, 0x10, 4);
    put(out, uint64_t(width - 1), 3), put(out, uint64_t(height - 1), 3);
  }
  put(out, chunks);
  return out;
}

// Walks through a GIF's blocks.
class GifBlocks {
 public:
  GifBlocks(const Bytes& in, size_t at) : in_(in), at_(at) {}
  size_t at() const { return at_; }
  uint64_t byte() { return in_.get(at_++, 1); }
  void skip(size_t count) { (void)in_.part(at_, count), at_ += count; }
  // Skips blocks of a length byte and as many bytes, until a length of 0.
  void skip_sub_blocks() {
    while (const uint64_t size = byte()) skip(size);
  }
  void skip_color_table(uint64_t flags) {
    if (flags & 0x80) skip(size_t{3} << ((flags & 7) + 1));
  }
  void skip_image() {
    skip(8);
    skip_color_table(byte());
    skip(1);
    skip_sub_blocks();
  }

 private:
  const Bytes& in_;
  size_t at_;
};

// Says whether a GIF has another picture after this place; one that ends without its trailer has none.
bool another_picture(const Bytes& in, size_t at) {
  try {
    GifBlocks blocks(in, at);
    for (;;) {
      const uint64_t kind = blocks.byte();
      if (kind == 0x2c) return true;
      if (kind != 0x21) return false;
      blocks.skip(1);
      blocks.skip_sub_blocks();
    }
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

FirstPicture first_of_webp(std::span<const uint8_t> file, std::string_view name) {
  const Bytes in(file, name, false);
  const int canvas_width = int(in.get(24, 3)) + 1, canvas_height = int(in.get(27, 3)) + 1;
  for (size_t at = 12; in.has(at, 8);) {
    const size_t bytes = in.get(at + 4, 4);
    if (starts_with(file, at, "ANMF")) {
      (void)in.part(at + 8, bytes);
      check(bytes > 16, ErrorCode::corrupt, "{}: the first picture of this animated WebP has {} bytes", name,
            bytes);
      FirstPicture out;
      out.left = int(in.get(at + 8, 3)) * 2, out.top = int(in.get(at + 11, 3)) * 2;
      out.width = int(in.get(at + 14, 3)) + 1, out.height = int(in.get(at + 17, 3)) + 1;
      check(out.left + out.width <= canvas_width && out.top + out.height <= canvas_height, ErrorCode::corrupt,
            "{}: the first picture of this animated WebP lies outside its {}x{}", name, canvas_width,
            canvas_height);
      out.file = still_webp(in.part(at + 24, bytes - 16), out.width, out.height);
      out.animated = true;
      return out;
    }
    at += 8 + bytes + bytes % 2;
  }
  fail(ErrorCode::corrupt, "{}: an animated WebP without a picture", name);
}

FirstPicture first_of_gif(std::span<const uint8_t> file, std::string_view name) {
  const Bytes in(file, name, false);
  FirstPicture out;
  out.width = int(in.get(6, 2)), out.height = int(in.get(8, 2));
  GifBlocks blocks(in, 10);
  const uint64_t flags = blocks.byte();
  blocks.skip(2);
  blocks.skip_color_table(flags);
  put(out.file, in.part(0, blocks.at()));
  // Pixels outside the picture get the transparent colour if there is one, otherwise the first colour.
  uint8_t background = 0;
  for (;;) {
    const size_t begin = blocks.at();
    const uint64_t kind = blocks.byte();
    if (kind == 0x2c) {
      blocks.skip_image();
      put(out.file, in.part(begin, blocks.at() - begin));
      break;
    }
    check(kind == 0x21, ErrorCode::corrupt, "{}: unknown GIF block 0x{:02x} at byte {}", name, kind, begin);
    const bool control = blocks.byte() == 0xf9;
    if (control && in.get(begin + 2, 1) == 4 && (in.get(begin + 3, 1) & 1) != 0)
      background = uint8_t(in.get(begin + 6, 1));
    blocks.skip_sub_blocks();
  }
  out.file[11] = background;
  out.file.push_back(0x3b);
  out.animated = another_picture(in, blocks.at());
  return out;
}

}  // namespace tachy
