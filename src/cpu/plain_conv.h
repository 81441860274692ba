// The plain form of convolution weights, [taps, Ci, Co] f32, and the inner loop of the definitions on it.
#pragma once

#include "cpu/widen.h"

namespace tachy::cpu {

// weight [Co, Ci, taps…] (any float dtype, contiguous) → out [taps, Ci, Co].
void pack_plain_conv(const Tensor& weight, float* out);

// sums[o] += Σ_c x[c]·w[c, o] for one pixel and one tap.
inline void accumulate_tap(const float* x, const float* w, int64_t ci, int64_t co, double* sums) {
  for (int64_t c = 0; c < ci; ++c) {
    const double value = x[c];
    for (int64_t o = 0; o < co; ++o) sums[o] += value * w[c * co + o];
  }
}

}  // namespace tachy::cpu
