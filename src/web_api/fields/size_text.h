// A size as a text: "832x480".
#pragma once

#include <utility>

#include "web_api/fields/values.h"

namespace tachy::web_api {

inline constexpr int64_t kMostSide = 1'000'000'000;  // larger ones are no numbers of pixels at all

// Returns width and height, each from 1 to kMostSide. Throws ApiError (invalid_value).
std::pair<int64_t, int64_t> size_in(const Value& value);

}  // namespace tachy::web_api
