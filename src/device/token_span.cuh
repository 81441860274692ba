// The tokens of a block, for kernels whose blocks may be cut to sizes of their own.
#pragma once

#include <cstdint>

namespace tachy::device {

struct TokenSpan {
  int first, end;
};
// Block i ends at ends[i], and has at most `most` tokens; without ends every block has `whole`. Whatever the ends are,
// the result is a part of [0, tokens).
__device__ __forceinline__ TokenSpan token_span(const int32_t* ends, int i, int tokens, int whole, int most) {
  if (!ends) return {min(i * whole, tokens), min((i + 1) * whole, tokens)};
  const int first = i > 0 ? max(0, min(tokens, __ldg(ends + i - 1))) : 0;
  return {first, max(first, min(min(tokens, first + most), __ldg(ends + i)))};
}

}  // namespace tachy::device
