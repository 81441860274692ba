// Checks that no two tensors of a file share a byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "weights/quote.h"

namespace tachy {

struct ByteRange {
  uint64_t begin, end;  // where the data begins and ends
  std::string_view name;
};

inline void refuse_overlaps(const std::string& path, std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [](const ByteRange& r) { return r.begin == r.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    check(ranges[i].end <= ranges[i + 1].begin, ErrorCode::corrupt,
          "{}: tensors {} and {} overlap at data byte {}", path, in_quotes(ranges[i].name),
          in_quotes(ranges[i + 1].name), ranges[i + 1].begin);
  }
}

}  // namespace tachy
