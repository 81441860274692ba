#include "media/picture/exif.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <optional>

#include "media/byte_reader.h"

namespace tachy {
namespace {

constexpr unsigned kOrientation = 0x0112;
constexpr std::string_view kPrefix("Exif\0\0", 6);

// Returns the size of one value of a TIFF type, or 0 for an unknown type.
size_t type_bytes(uint64_t type) {
  constexpr uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
  return type < std::size(bytes) ? bytes[type] : 0;
}

// Returns the first value, or nothing if it is not a number (Pillow treats a byte as part of a text).
std::optional<double> number_at(const Bytes& in, size_t at, uint64_t type) {
  const auto whole = [&](int bytes) { return in.get(at, bytes); };
  const auto ratio = [](double above, double below) { return below == 0 ? std::nan("") : above / below; };
  switch (type) {
    case 3:
      return double(whole(2));
    case 4:
    case 13:
      return double(whole(4));
    case 5:
      return ratio(double(whole(4)), double(in.get(at + 4, 4)));
    case 6:
      return double(int8_t(whole(1)));
    case 8:
      return double(int16_t(whole(2)));
    case 9:
      return double(int32_t(whole(4)));
    case 10:
      return ratio(double(int32_t(whole(4))), double(int32_t(in.get(at + 4, 4))));
    case 11:
      return double(std::bit_cast<float>(uint32_t(whole(4))));
    case 12:
      return std::bit_cast<double>(whole(8));
    case 16:
      return double(whole(8));
    default:
      return std::nullopt;
  }
}

struct Found {
  bool any = false;  // whether the tag exists, whatever its value
  int orientation = 1;
};

Found in_tiff(const Bytes& tiff) {
  size_t at = tiff.get(4, 4);
  if (!tiff.has(at, 2)) return {};
  const uint64_t entries = tiff.get(at, 2);
  uint64_t far_bytes = 0;
  at += 2;
  for (uint64_t i = 0; i < entries && tiff.has(at, 12); ++i, at += 12) {
    const uint64_t type = tiff.get(at + 2, 2), count = tiff.get(at + 4, 4), bytes = count * type_bytes(type);
    size_t value = at + 8;
    if (bytes > 4) {
      far_bytes += bytes;
      if (far_bytes > tiff.size()) continue;
      value = tiff.get(at + 8, 4);
      if (!tiff.has(value, bytes)) break;
    }
    if (tiff.get(at, 2) != kOrientation || bytes == 0) continue;
    const double number = number_at(tiff, value, type).value_or(0);
    const bool known = number >= 1 && number <= 8 && number == std::floor(number);
    return {true, known ? int(number) : 1};
  }
  return {};
}

Found in_exif(std::span<const uint8_t> exif) {
  for (int i = 0; i < 2 && starts_with(exif, 0, kPrefix); ++i) exif = exif.subspan(kPrefix.size());
  const bool big = starts_with(exif, 0, "MM");
  // Pillow also accepts a 42 in the wrong byte order.
  const bool known =
      (big || starts_with(exif, 0, "II")) &&
      (starts_with(exif, 2, std::string_view("\0*", 2)) || starts_with(exif, 2, std::string_view("*\0", 2)));
  if (!known || exif.size() < 8) return {};
  return in_tiff(Bytes(exif, "EXIF", big));
}

int in_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\""))
      rest.remove_prefix(2);
    else if (rest.starts_with(">"))
      rest.remove_prefix(1);
    else
      continue;
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') continue;
    return rest[0] >= '1' && rest[0] <= '8' ? rest[0] - '0' : 1;
  }
  return 1;
}

}  // namespace

int orientation_of(std::span<const uint8_t> exif, std::string_view xmp) {
  const Found found = in_exif(exif);
  return found.any ? found.orientation : in_xmp(xmp);
}

}  // namespace tachy
