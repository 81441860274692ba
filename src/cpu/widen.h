// Widening of stored weights (f32, f16, bf16, f8) and of codes (f8, i8) to float, exact for every value.
// Weights keep the file's dtype in the mapping; a slab is widened when it is packed.
#pragma once

#include "tensor/tensor.h"

namespace tachy::cpu {

// True for the dtypes of weights that widen() reads; it also reads i8, which only codes have.
bool widens(DType dtype);

// Widens count values of `dtype` at `from`, which may be unaligned (a mapped file guarantees nothing).
void widen(const void* from, DType dtype, int64_t count, float* to);

}  // namespace tachy::cpu
