#include "media/picture/exif_chunks.h"

#include <zlib.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "media/byte_reader.h"
#include "media/picture/exif.h"

namespace tachy {
namespace {

constexpr size_t kMostText = 1 << 20;  // the limit of an unpacked text, as in Pillow
constexpr int kMostTexts = 16;         // how many texts of a file are unpacked at most
constexpr std::string_view kRawProfile = "Raw profile type exif", kXmpKeyword = "XML:com.adobe.xmp";

struct Chunk {
  std::string_view kind;
  std::span<const uint8_t> data;
};

// Calls `use` with each complete chunk of a PNG until it returns false.
void each_png_chunk(std::span<const uint8_t> file, const std::function<bool(const Chunk&)>& use) {
  const Bytes in(file, "PNG", true);
  for (size_t at = 8; in.has(at, 8);) {
    const size_t bytes = in.get(at, 4);
    if (!in.has(at + 8, bytes)) return;
    if (!use({text_of(file.subspan(at + 4, 4)), file.subspan(at + 8, bytes)})) return;
    at += 12 + bytes;
  }
}

// Returns the unpacked text, or nothing if it is damaged or longer than kMostText.
std::optional<std::string> inflated(std::string_view packed) {
  std::string out(kMostText, '\0');
  uLongf length = out.size();
  const auto* from = reinterpret_cast<const Bytef*>(packed.data());
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &length, from, uLong(packed.size())) != Z_OK)
    return {};
  out.resize(length);
  return out;
}

// Returns the text before the next zero byte, and removes both; returns nothing if there is no zero byte.
std::optional<std::string_view> cut_word(std::string_view& text) {
  const size_t end = text.find('\0');
  if (end == text.npos) return std::nullopt;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end + 1);
  return word;
}

// Returns the text of a chunk with this keyword, and nothing for any other chunk. `left` is the number of
// texts that may still be unpacked.
std::optional<std::string> text_in(const Chunk& chunk, std::string_view keyword, int& left) {
  std::string_view rest = text_of(chunk.data);
  if (cut_word(rest) != keyword) return std::nullopt;
  if (chunk.kind == "tEXt") return std::string(rest);
  if (chunk.kind == "zTXt") {
    if (rest.empty() || rest[0] != 0 || left-- <= 0) return std::nullopt;
    return inflated(rest.substr(1));
  }
  if (chunk.kind != "iTXt" || rest.size() < 2) return std::nullopt;
  const bool packed = rest[0] != 0;
  if (packed && (rest[1] != 0 || left-- <= 0)) return std::nullopt;
  rest.remove_prefix(2);
  // Skips a language, and the keyword in that language.
  if (!cut_word(rest) || !cut_word(rest)) return std::nullopt;
  return packed ? inflated(rest) : std::string(rest);
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads "\nexif\n   1234\n" and the lines of digits after it. Returns an empty vector if there is anything
// else among them.
std::vector<uint8_t> raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::vector<uint8_t> out;
  int upper = -1;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (space && upper < 0) continue;
    const int digit = digit_of(c);
    // Lines are simply joined, so a line may end in the middle of a byte.
    if (digit < 0 && c == '\n') continue;
    if (digit < 0) return {};
    if (upper >= 0) out.push_back(uint8_t(upper << 4 | digit));
    upper = upper >= 0 ? -1 : digit;
  }
  return upper < 0 ? out : std::vector<uint8_t>();
}

}  // namespace

int png_orientation(std::span<const uint8_t> file) {
  std::optional<std::span<const uint8_t>> exif;
  std::optional<std::string> profile, xmp;
  bool animated = false, pixels = false;
  int left = kMostTexts;
  each_png_chunk(file, [&](const Chunk& chunk) {
    if (chunk.kind == "IEND" || (chunk.kind == "fcTL" && animated && pixels)) return false;
    animated |= chunk.kind == "acTL", pixels |= chunk.kind == "IDAT";
    if (chunk.kind == "eXIf") exif = chunk.data;
    if (auto text = text_in(chunk, kRawProfile, left)) profile = std::move(text);
    if (auto text = text_in(chunk, kXmpKeyword, left)) xmp = std::move(text);
    return true;
  });
  std::vector<uint8_t> unpacked;
  if (!exif && profile) unpacked = raw_profile(*profile), exif = unpacked;
  return orientation_of(exif.value_or(std::span<const uint8_t>()), xmp ? *xmp : std::string_view());
}

bool png_animated(std::span<const uint8_t> file) {
  bool animated = false;
  each_png_chunk(file, [&](const Chunk& chunk) {
    if (chunk.kind == "acTL" && chunk.data.size() >= 4)
      animated = Bytes(chunk.data, "PNG", true).get(0, 4) > 1;
    return chunk.kind != "IDAT";
  });
  return animated;
}

int webp_orientation(std::span<const uint8_t> file) {
  const Bytes in(file, "WebP", false);
  if (!starts_with(file, 12, "VP8X") || !in.has(20, 1)) return 1;
  const uint64_t flags = in.get(20, 1);
  std::span<const uint8_t> exif, xmp;
  for (size_t at = 12; in.has(at, 8);) {
    const size_t bytes = in.get(at + 4, 4);
    if (!in.has(at + 8, bytes)) break;
    const auto data = file.subspan(at + 8, bytes);
    if (starts_with(file, at, "EXIF") && flags & 8 && exif.empty()) exif = data;
    if (starts_with(file, at, "XMP ") && flags & 4 && xmp.empty()) xmp = data;
    at += 8 + bytes + bytes % 2;
  }
  return orientation_of(exif, text_of(xmp));
}

}  // namespace tachy
