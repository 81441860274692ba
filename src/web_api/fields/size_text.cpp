#include "web_api/fields/size_text.h"

#include <charconv>
#include <optional>

namespace tachy::web_api {
namespace {

std::optional<int64_t> side_in(std::string_view text) {
  int64_t side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && side >= 1 && side <= kMostSide ? std::optional(side) : std::nullopt;
}

}  // namespace

std::pair<int64_t, int64_t> size_in(const Value& value) {
  const std::string text = text_in(value);
  const size_t by = text.find_first_of("xX*");
  if (by == text.npos) refuse(value, "width and height, such as 832x480");
  const auto width = side_in(std::string_view(text).substr(0, by));
  const auto height = side_in(std::string_view(text).substr(by + 1));
  if (!width || !height) refuse(value, "width and height, such as 832x480");
  return {*width, *height};
}

}  // namespace tachy::web_api
