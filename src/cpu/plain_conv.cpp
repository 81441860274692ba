#include "cpu/plain_conv.h"

#include <vector>

namespace tachy::cpu {

void pack_plain_conv(const Tensor& weight, float* out) {
  const int64_t co = weight.dim(0), ci = weight.dim(1), taps = weight.numel() / (co * ci);
  std::vector<float> row(static_cast<size_t>(ci * taps));
  for (int64_t o = 0; o < co; ++o) {
    const int64_t offset = o * ci * taps * dtype_size(weight.dtype);
    widen(static_cast<const char*>(weight.data) + offset, weight.dtype, ci * taps, row.data());
    for (int64_t c = 0; c < ci; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) out[(tap * ci + c) * co + o] = row[c * taps + tap];
  }
}

}  // namespace tachy::cpu
