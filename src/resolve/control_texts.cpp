#include "resolve/control_texts.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace tachy {
namespace {

constexpr int64_t kMostPixels = 1 << 14;
constexpr double kMostStrength = 10;

// Splits a text at a character; a text without it is one piece.
std::vector<std::string_view> pieces_of(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

template <class Number>
bool reads(std::string_view text, Number& to) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::pair<int64_t, int64_t> parse_keep(const std::string& text) {
  const std::vector<std::string_view> parts = pieces_of(text, '-');
  std::pair<int64_t, int64_t> out{-1, -1};
  require(parts.size() == 2 && reads(parts[0], out.first) && reads(parts[1], out.second) && out.first >= 0 &&
              out.second >= 0,
          "`keep`: expected FIRST-LAST, such as 0-16, got '{}'", text);
  return out;
}

std::array<int64_t, 4> parse_outpaint(const std::string& text) {
  const std::vector<std::string_view> parts = pieces_of(text, ',');
  std::array<int64_t, 4> out{};
  bool fits = parts.size() == out.size();
  for (size_t i = 0; fits && i < out.size(); ++i)
    fits = reads(parts[i], out[i]) && out[i] >= 0 && out[i] <= kMostPixels;
  require(
      fits && std::ranges::any_of(out, [](int64_t side) { return side > 0; }),
      "`outpaint`: expected L,T,R,B in pixels, 0 to {} and one of them above 0, such as 64,0,64,0, got '{}'",
      kMostPixels, text);
  return out;
}

std::vector<float> parse_strengths(const std::string& text, size_t blocks) {
  const std::vector<std::string_view> parts = pieces_of(text, ',');
  std::vector<float> out;
  for (const std::string_view part : parts) {
    double value = 0;
    require(reads(part, value) && std::abs(value) <= kMostStrength,
            "`vace_strength`: expected numbers from -{} to {}, got '{}'", kMostStrength, kMostStrength, text);
    out.push_back(static_cast<float>(value));
  }
  require(out.size() == 1 || out.size() == blocks,
          "`vace_strength`: expected one number, or {} (the model's control blocks) with commas, got {}",
          blocks, out.size());
  out.resize(blocks, out.front());
  return out;
}

}  // namespace tachy
