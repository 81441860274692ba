// Sizes for shapes from files, with overflow checks, and shapes of kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace tachy {

// Returns the product of the extents and the element size, or nothing if an extent is negative or the product
// exceeds int64.
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

// Says whether `found` is `dims` with neighbouring dimensions merged. Files that allow only four dimensions
// store a five-dimensional kernel like this, with its values in the same order.
inline bool is_folded(std::span<const int64_t> dims, std::span<const int64_t> found) {
  size_t i = 0;
  for (const int64_t extent : found) {
    int64_t product = 1;
    while (product < extent && i < dims.size()) product *= dims[i++];
    if (product != extent) return false;
  }
  return std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(i), dims.end(),
                     [](int64_t extent) { return extent == 1; });
}

}  // namespace tachy
