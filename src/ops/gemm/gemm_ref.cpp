// The definition of the linear layer:
//   t = act(x·Wᵀ + bias) [· multiply];  y = t, or y = residual + gate[row]·t
// Everything is accumulated in double and rounded once; the weight is read in its own dtype, `packed` is not
// used.
#include <cmath>
#include <vector>

#include "cpu/panels.h"
#include "cpu/widen.h"
#include "ops/gemm/gemm_impl.h"

namespace tachy::ops {
namespace {

template <class Sum>
Sum activate(Sum v, Activation act) {
  switch (act) {
    case Activation::none:
      return v;
    case Activation::silu:
      return v / (Sum{1} + std::exp(-v));
    case Activation::gelu_tanh:
      return Sum(0.5) * v *
             (Sum{1} + std::tanh(Sum(0.79788456080286535588) * (v + Sum(0.044715) * v * v * v)));
    case Activation::gelu_erf:
      return Sum(0.5) * v * std::erfc(-v * Sum(0.70710678118654752440));
    case Activation::mish:
      return v * std::tanh(std::log1p(std::exp(v)));
  }
  return v;
}

template <class Sum>
Sum dot(const float* a, const float* b, int64_t count) {
  Sum sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<Sum>(a[i]) * b[i];
  return sum;
}

void round_to_bf16(float* values, int64_t count) {
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  cpu::narrow_bf16(values, count, bits.data());
  cpu::widen(bits.data(), DType::bf16, count, values);
}

template <class Sum>
void reference(const GemmArgs& a, Stream& stream, bool rounded = false) {
  const int64_t m = a.x.dim(0), n = a.weight.dim(0), k = a.weight.dim(1);
  ArenaScope scope(*stream.arena);
  Tensor wide = stream.arena->f32({stream.threads(), k});
  const Tensor narrowed = rounded ? stream.arena->f32({m, k}) : Tensor();
  if (stream.measuring()) return;
  if (rounded)
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(a.x.as<float>() + i * a.x.stride(0), k, narrowed.as<float>() + i * k);
      round_to_bf16(narrowed.as<float>() + i * k, k);
    }
  const Tensor& x = rounded ? narrowed : a.x;
  stream.pool->run(n, [&](int64_t column, int worker) {
    float* w = wide.as<float>() + worker * k;
    const char* from = static_cast<const char*>(a.weight.data) + column * k * dtype_size(a.weight.dtype);
    cpu::widen(from, a.weight.dtype, k, w);
    if (rounded) round_to_bf16(w, k);
    for (int64_t i = 0; i < m; ++i) {
      Sum t = dot<Sum>(x.as<float>() + i * x.stride(0), w, k);
      if (a.bias.defined()) t += a.bias.as<float>()[column];
      t = activate(t, a.act);
      if (a.multiply.defined()) t *= a.multiply.as<float>()[i * a.multiply.stride(0) + column];
      if (a.gate.defined()) {
        const int64_t r = a.row.defined() ? a.row.as<int32_t>()[i] : 0;
        t *= a.gate.as<float>()[r * a.gate.stride(0) + column];
      }
      if (a.residual.defined()) t += a.residual.as<float>()[i * a.residual.stride(0) + column];
      a.y.as<float>()[i * a.y.stride(0) + column] = static_cast<float>(t);
    }
  });
}

}  // namespace

void gemm_ref(const GemmArgs& args, Stream& stream) { reference<double>(args, stream); }
void gemm_working(const GemmArgs& args, Stream& stream) {
  reference<float>(args, stream, cpu::usable(stream.precision.compute) == Compute::bf16);
}

}  // namespace tachy::ops
