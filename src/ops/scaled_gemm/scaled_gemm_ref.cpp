// The definition of the linear layer in 8 bits. A product of two codes is exact in double (and of int8 codes
// in an integer), so that only the sum, the scales and the epilogue round.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/activation_def.h"
#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"
#include "ops/scaled_gemm/scaled_gemm_int8.h"

namespace tachy::ops {
namespace {

void codes_to_float(const uint8_t* codes, DType dtype, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = dtype == DType::i8 ? static_cast<float>(static_cast<int8_t>(codes[i]))
                               : to_float(f8_e4m3_t{codes[i]});
}

template <class Sum>
void reference(const ScaledGemmArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), n = a.weight.dim(0), k = a.weight.dim(1);
  const ArenaScope scope(*stream.arena);
  const Tensor x = stream.arena->f32({m, k}), wide = stream.arena->f32({stream.threads(), k});
  if (stream.measuring()) return;
  for (int64_t i = 0; i < m; ++i)
    codes_to_float(static_cast<const uint8_t*>(a.x.data) + i * a.x.stride(0), a.x.dtype, k,
                   x.as<float>() + i * k);
  stream.pool->run(n, [&](int64_t column, int worker) {
    float* w = wide.as<float>() + worker * k;
    if (a.packed.defined()) {
      std::vector<int8_t> row(static_cast<size_t>(k));
      int8::unpack_row(a.packed, k, column, row.data());
      std::copy(row.begin(), row.end(), w);
    } else {
      codes_to_float(static_cast<const uint8_t*>(a.weight.data) + column * k, a.weight.dtype, k, w);
    }
    const auto w_scale = static_cast<Sum>(a.weight_scale.as<float>()[column]);
    for (int64_t i = 0; i < m; ++i) {
      Sum t = 0;
      for (int64_t j = 0; j < k; ++j)
        t += static_cast<Sum>(x.as<float>()[i * k + j]) * static_cast<Sum>(w[j]);
      t *= static_cast<Sum>(a.x_scale.as<float>()[i]) * w_scale;
      if (a.bias.defined()) t += static_cast<Sum>(a.bias.as<float>()[column]);
      if (a.addend.defined()) t += static_cast<Sum>(a.addend.as<float>()[i * a.addend.stride(0) + column]);
      a.y.as<float>()[i * a.y.stride(0) + column] = static_cast<float>(activate(t, a.act));
    }
  });
}

}  // namespace

void scaled_gemm_ref(const ScaledGemmArgs& args, Stream& stream) { reference<double>(args, stream); }
void scaled_gemm_working(const ScaledGemmArgs& args, Stream& stream) { reference<float>(args, stream); }

}  // namespace tachy::ops
