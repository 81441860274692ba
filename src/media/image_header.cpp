#include "media/image_header.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "media/frame.h"

namespace tachy {
namespace {

// Integers of a byte range; every access is checked.
class Bytes {
 public:
  Bytes(std::span<const uint8_t> data, std::string_view name, bool big_endian)
      : data_(data), name_(name), big_(big_endian) {}
  size_t size() const { return data_.size(); }
  uint32_t get(size_t at, int bytes) const {
    check(at <= data_.size() && data_.size() - at >= size_t(bytes), ErrorCode::corrupt,
          "{}: picture ends at byte {} within its header (truncated?)", name_, data_.size());
    uint32_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= uint32_t(data_[at + size_t(big_ ? bytes - 1 - i : i)]) << (8 * i);
    return v;
  }
  std::span<const uint8_t> part(size_t at, size_t count) const {
    check(at <= data_.size() && data_.size() - at >= count, ErrorCode::corrupt,
          "{}: picture claims {} bytes at byte {}, the file has {}", name_, count, at, data_.size());
    return data_.subspan(at, count);
  }

 private:
  std::span<const uint8_t> data_;
  std::string_view name_;
  bool big_;
};

bool starts_with(std::span<const uint8_t> data, size_t at, std::string_view text) {
  return data.size() >= at + text.size() && std::memcmp(data.data() + at, text.data(), text.size()) == 0;
}

// APP1: "Exif\0\0", then a TIFF: byte order, 42, offset of the first directory, whose entries are 12 bytes
// each. Anything odd means upright: a wrong thumbnail directory is no reason to refuse a photo.
int exif_orientation(std::span<const uint8_t> segment, std::string_view name) {
  if (!starts_with(segment, 0, std::string_view("Exif\0\0", 6)) || segment.size() < 14) return 1;
  auto tiff_data = segment.subspan(6);
  Bytes tiff(tiff_data, name, tiff_data[0] == 'M');
  size_t at = tiff.get(4, 4);
  if (tiff.get(2, 2) != 42 || at > tiff.size() || tiff.size() - at < 2) return 1;
  size_t entries = tiff.get(at, 2);
  for (size_t i = 0; i < entries; ++i) {
    size_t entry = at + 2 + 12 * i;
    if (entry + 12 > tiff.size()) return 1;
    if (tiff.get(entry, 2) != 0x0112) continue;
    uint32_t value = tiff.get(entry + 8, 2);
    return value >= 1 && value <= 8 ? int(value) : 1;
  }
  return 1;
}

ImageHeader jpeg_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  Bytes in(file, name, true);
  ImageHeader out{ImageKind::jpeg};
  size_t at = 2;
  for (;;) {
    check(in.get(at, 1) == 0xff, ErrorCode::corrupt, "{}: JPEG marker expected at byte {}, got 0x{:02x}",
          name, at, in.get(at, 1));
    while (in.get(at + 1, 1) == 0xff) ++at;  // fill bytes
    uint32_t marker = in.get(at + 1, 1);
    size_t length = in.get(at + 2, 2);
    check(length >= 2, ErrorCode::corrupt, "{}: JPEG segment at byte {} of length {}", name, at, length);
    auto segment = in.part(at + 4, length - 2);
    // SOF0 to SOF15 without DHT (c4), JPG (c8) and DAC (cc).
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      Bytes sof(segment, name, true);
      out.height = int(sof.get(1, 2));
      out.width = int(sof.get(3, 2));
    }
    if (marker == 0xe1 && out.orientation == 1) out.orientation = exif_orientation(segment, name);
    at += 2 + length;
    if (marker == 0xda) break;  // the scan follows
    check(marker != 0xd9, ErrorCode::corrupt, "{}: JPEG ends at byte {} without a picture", name, at);
  }
  // In a scan FF is always followed by 0 or a marker, so FF D9 can only be the end.
  bool ended = !whole;
  for (size_t i = at; !ended && i + 1 < file.size(); ++i) ended = file[i] == 0xff && file[i + 1] == 0xd9;
  check(ended, ErrorCode::corrupt, "{}: JPEG of {} bytes has no end marker (truncated?)", name, file.size());
  return out;
}

ImageHeader png_header(std::span<const uint8_t> file, std::string_view name) {
  Bytes in(file, name, true);
  check(starts_with(file, 12, "IHDR"), ErrorCode::corrupt, "{}: PNG without an IHDR chunk at byte 8", name);
  uint32_t width = in.get(16, 4), height = in.get(20, 4);
  check(width <= INT32_MAX && height <= INT32_MAX, ErrorCode::corrupt, "{}: PNG claims {}x{} pixels", name,
        width, height);
  return {ImageKind::png, int(width), int(height)};
}

ImageHeader webp_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  Bytes in(file, name, false);
  ImageHeader out{ImageKind::webp};
  if (starts_with(file, 12, "VP8X")) {
    check((in.get(20, 1) & 2) == 0, ErrorCode::unsupported, "{}: animated WebP; convert it to .gif or .mp4",
          name);
    out.width = int(in.get(24, 3)) + 1;
    out.height = int(in.get(27, 3)) + 1;
  } else if (starts_with(file, 12, "VP8L")) {
    uint32_t bits = in.get(21, 4);
    out.width = int(bits & 0x3fff) + 1;
    out.height = int(bits >> 14 & 0x3fff) + 1;
  } else if (starts_with(file, 12, "VP8 ")) {
    out.width = int(in.get(26, 2) & 0x3fff);
    out.height = int(in.get(28, 2) & 0x3fff);
  } else {
    fail(ErrorCode::corrupt, "{}: WebP without a picture chunk at byte 12", name);
  }
  uint64_t claimed = uint64_t(in.get(4, 4)) + 8;
  check(!whole || claimed <= file.size(), ErrorCode::corrupt,
        "{}: WebP claims {} bytes, the file has {} (truncated?)", name, claimed, file.size());
  return out;
}

}  // namespace

ImageHeader read_image_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  ImageHeader out;
  if (starts_with(file, 0, "\x89PNG\r\n\x1a\n")) {
    out = png_header(file, name);
  } else if (starts_with(file, 0, "\xff\xd8\xff")) {
    out = jpeg_header(file, name, whole);
  } else if (starts_with(file, 0, "RIFF") && starts_with(file, 8, "WEBP")) {
    out = webp_header(file, name, whole);
  } else {
    fail(ErrorCode::unsupported, "{}: expected a PNG, JPEG or WebP picture, got {}", name,
         file.empty() ? "an empty file" : "another kind of file");
  }
  check(out.width >= 1 && out.height >= 1, ErrorCode::corrupt, "{}: picture claims {}x{} pixels", name,
        out.width, out.height);
  check(out.width <= kMaxImageSide && out.height <= kMaxImageSide &&
            int64_t(out.width) * out.height <= kMaxImagePixels,
        ErrorCode::corrupt, "{}: picture of {}x{} is larger than the limit of {} a side and {} pixels", name,
        out.width, out.height, kMaxImageSide, kMaxImagePixels);
  return out;
}

}  // namespace tachy
