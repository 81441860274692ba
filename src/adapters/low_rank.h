// out += scale · B·A, the inner loop of merging an adapter.
#pragma once

#include <cstdint>

namespace tachy {

// out [rows, columns], b [rows, rank] and a [rank, columns] are all contiguous. Each value is summed over the
// ranks in order. Whether products are rounded before they are added depends on the instruction set.
void add_low_rank(const float* b, const float* a, int64_t rows, int64_t rank, int64_t columns, float scale,
                  float* out);

}  // namespace tachy
