// Overflow-checked sizes of shapes that come from files.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace tachy {

// Product of non-negative extents times the element size; nothing when negative or above int64.
inline std::optional<uint64_t> checked_bytes(std::span<const int64_t> dims, DType dtype) {
  uint64_t total = static_cast<uint64_t>(dtype_size(dtype));
  bool empty = false;
  for (const int64_t extent : dims) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / static_cast<uint64_t>(extent))
      return std::nullopt;
    total *= static_cast<uint64_t>(extent);
  }
  return empty ? 0 : total;
}

}  // namespace tachy
