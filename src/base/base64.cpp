#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tachy {
namespace {

constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kForUrls = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<int8_t, 256> values_of(std::string_view letters) {
  std::array<int8_t, 256> values{};
  for (auto& value : values) value = -1;
  for (size_t i = 0; i < letters.size(); ++i)
    values[static_cast<unsigned char>(letters[i])] = static_cast<int8_t>(i);
  return values;
}

std::string written(std::string_view bytes, std::string_view letters, bool padded) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (size_t i = 0; i <= count; ++i) out += letters[bits >> (18 - 6 * i) & 63];
    if (padded) out.append(3 - count, '=');
  }
  return out;
}

// `text` has no padding.
std::optional<std::string> read(std::string_view text, const std::array<int8_t, 256>& values) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held);
    bits &= (1u << held) - 1;
  }
  if (bits != 0) return std::nullopt;
  return out;
}

}  // namespace

std::string to_base64(std::string_view bytes) { return written(bytes, kPlain, true); }
std::string to_base64url(std::string_view bytes) { return written(bytes, kForUrls, false); }

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = values_of(kPlain);
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with("="); ++i) text.remove_suffix(1);
  return read(text, kValues);
}

std::optional<std::string> from_base64url(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = values_of(kForUrls);
  return read(text, kValues);
}

}  // namespace tachy
