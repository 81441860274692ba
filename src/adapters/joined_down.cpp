#include "adapters/joined_down.h"

#include "cpu/widen.h"

namespace tachy {

std::vector<float> joined_down(const Tensor& mid, const Tensor& down) {
  const int64_t r = mid.dim(0), q_count = mid.dim(1), in = down.dim(1), taps = mid.numel() / (r * q_count);
  std::vector<float> m(static_cast<size_t>(mid.numel())), a(static_cast<size_t>(down.numel()));
  cpu::widen(mid.data, mid.dtype, mid.numel(), m.data());
  cpu::widen(down.data, down.dtype, down.numel(), a.data());
  std::vector<float> out(static_cast<size_t>(r * in * taps), 0.0f);
  for (int64_t p = 0; p < r; ++p)
    for (int64_t q = 0; q < q_count; ++q)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t k = 0; k < taps; ++k)
          out[static_cast<size_t>((p * in + i) * taps + k)] +=
              m[static_cast<size_t>((p * q_count + q) * taps + k)] * a[static_cast<size_t>(q * in + i)];
  return out;
}

}  // namespace tachy
