#include "media/picture/image_header.h"

#include <vector>

#include "base/error.h"
#include "media/byte_reader.h"
#include "media/file_kind.h"
#include "media/frame.h"
#include "media/picture/exif.h"
#include "media/picture/exif_chunks.h"
#include "media/picture/first_picture.h"

namespace tachy {
namespace {

// The first bytes of a JPEG's APP1 segments.
constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);

ImageHeader jpeg_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  Bytes in(file, name, true);
  ImageHeader out{ImageKind::jpeg};
  std::vector<uint8_t> exif;  // Pillow joins the segments, and uses the last XMP
  std::span<const uint8_t> xmp;
  size_t at = 2;
  for (;;) {
    check(in.get(at, 1) == 0xff, ErrorCode::corrupt, "{}: JPEG marker expected at byte {}, got 0x{:02x}",
          name, at, in.get(at, 1));
    while (in.get(at + 1, 1) == 0xff) ++at;  // fill bytes
    const uint64_t marker = in.get(at + 1, 1);
    size_t length = in.get(at + 2, 2);
    check(length >= 2, ErrorCode::corrupt, "{}: JPEG segment at byte {} of length {}", name, at, length);
    auto segment = in.part(at + 4, length - 2);
    // The markers SOF0 to SOF15, without DHT (c4), JPG (c8) and DAC (cc).
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      Bytes sof(segment, name, true);
      out.height = int(sof.get(1, 2));
      out.width = int(sof.get(3, 2));
    }
    if (marker == 0xe1 && starts_with(segment, 0, kExif))
      exif.insert(exif.end(), segment.begin() + (exif.empty() ? 0 : ptrdiff_t(kExif.size())), segment.end());
    if (marker == 0xe1 && starts_with(segment, 0, kXmp)) xmp = segment.subspan(kXmp.size());
    at += 2 + length;
    if (marker == 0xda) break;  // the scan follows
    check(marker != 0xd9, ErrorCode::corrupt, "{}: JPEG ends at byte {} without a picture", name, at);
  }
  out.orientation = orientation_of(exif, text_of(xmp));
  // In a scan, FF is always followed by 0 or a marker, so FF D9 can only be the end.
  bool ended = !whole;
  for (size_t i = at; !ended && i + 1 < file.size(); ++i) ended = file[i] == 0xff && file[i + 1] == 0xd9;
  check(ended, ErrorCode::corrupt, "{}: JPEG of {} bytes has no end marker (truncated?)", name, file.size());
  return out;
}

ImageHeader png_header(std::span<const uint8_t> file, std::string_view name) {
  Bytes in(file, name, true);
  check(starts_with(file, 12, "IHDR"), ErrorCode::corrupt, "{}: PNG without an IHDR chunk at byte 8", name);
  const uint64_t width = in.get(16, 4), height = in.get(20, 4);
  check(width <= INT32_MAX && height <= INT32_MAX, ErrorCode::corrupt, "{}: PNG claims {}x{} pixels", name,
        width, height);
  return {ImageKind::png, int(width), int(height), png_orientation(file), png_animated(file)};
}

ImageHeader webp_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  Bytes in(file, name, false);
  ImageHeader out{ImageKind::webp};
  if (starts_with(file, 12, "VP8X")) {
    out.animated = (in.get(20, 1) & 2) != 0;
    out.width = int(in.get(24, 3)) + 1;
    out.height = int(in.get(27, 3)) + 1;
  } else if (starts_with(file, 12, "VP8L")) {
    const uint64_t bits = in.get(21, 4);
    out.width = int(bits & 0x3fff) + 1;
    out.height = int(bits >> 14 & 0x3fff) + 1;
  } else if (starts_with(file, 12, "VP8 ")) {
    out.width = int(in.get(26, 2) & 0x3fff);
    out.height = int(in.get(28, 2) & 0x3fff);
  } else {
    fail(ErrorCode::corrupt, "{}: WebP without a picture chunk at byte 12", name);
  }
  const uint64_t claimed = in.get(4, 4) + 8;
  check(!whole || claimed <= file.size(), ErrorCode::corrupt,
        "{}: WebP claims {} bytes, the file has {} (truncated?)", name, claimed, file.size());
  out.orientation = webp_orientation(file);
  return out;
}

ImageHeader gif_header(std::span<const uint8_t> file, std::string_view name) {
  const Bytes in(file, name, false);
  ImageHeader out{ImageKind::gif, int(in.get(6, 2)), int(in.get(8, 2))};
  out.animated = first_of_gif(file, name).animated;
  return out;
}

}  // namespace

const char* kind_name(ImageKind kind) {
  constexpr const char* names[] = {"PNG", "JPEG", "WebP", "GIF"};
  return names[int(kind)];
}

ImageHeader read_image_header(std::span<const uint8_t> file, std::string_view name, bool whole) {
  ImageHeader out;
  if (starts_with(file, 0, "\x89PNG\r\n\x1a\n")) {
    out = png_header(file, name);
  } else if (starts_with(file, 0, "\xff\xd8\xff")) {
    out = jpeg_header(file, name, whole);
  } else if (starts_with(file, 0, "RIFF") && starts_with(file, 8, "WEBP")) {
    out = webp_header(file, name, whole);
  } else if (starts_with(file, 0, "GIF87a") || starts_with(file, 0, "GIF89a")) {
    out = gif_header(file, name);
  } else {
    fail(ErrorCode::corrupt, "{}: expected a PNG, JPEG, WebP or GIF picture, got {}", name,
         file_kind(file, Wanted::picture));
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
