// The definition of the low-rank adapters: u = scale · (x · Aᵀ) and y (+)= u · Bᵀ, rounded once.
#include "ops/dtype_switch.h"
#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Weight, class Real>
class Definition {
 public:
  explicit Definition(const LoraArgs& args)
      : a(args), k_(a.x.dim(1)), n_(a.b.dim(1)), rank_(a.a.dim(1)), adapters_(a.a.dim(0)) {}

  // u has room for n · r values.
  void row(int64_t m, Real* u) const {
    const int64_t one = a.index.defined() ? a.index.as<int32_t>()[m] : 0;
    const int64_t begin = one < 0 ? 0 : one;
    const int64_t end = one < 0 ? 0 : a.index.defined() ? one + 1 : adapters_;
    const Store* x = row_of<Store>(a.x, m);
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < rank_; ++j) {
        const Weight* w = lora_row<Weight>(a.a, i, j);
        Real sum = 0;
        for (int64_t k = 0; k < k_; ++k) sum += Real(x[k]) * value(w[k]);
        u[i * rank_ + j] = sum * scale(i);
      }
    Store* y = row_of<Store>(a.y, m);
    for (int64_t o = 0; o < n_; ++o) {
      Real sum = 0;
      for (int64_t i = begin; i < end; ++i) {
        const Weight* w = lora_row<Weight>(a.b, i, o);
        for (int64_t j = 0; j < rank_; ++j) sum += u[i * rank_ + j] * value(w[j]);
      }
      y[o] = static_cast<Store>(a.accumulate ? Real(y[o]) + sum : sum);
    }
  }

 private:
  static Real value(Weight w) {
    if constexpr (std::is_same_v<Weight, double>)
      return static_cast<Real>(w);
    else
      return static_cast<Real>(widened(w));
  }
  Real scale(int64_t i) const {
    return a.scales.defined() ? Real(static_cast<const Store*>(a.scales.data)[i]) : Real(1);
  }

  const LoraArgs& a;
  const int64_t k_, n_, rank_, adapters_;
};

template <class Store, class Weight, class Real>
void define(const LoraArgs& a, Stream& stream) {
  const int64_t width = a.a.dim(0) * a.a.dim(1);
  ArenaScope scope(*stream.arena);
  auto* u =
      static_cast<Real*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * width) * sizeof(Real)));
  if (stream.measuring()) return;
  const Definition<Store, Weight, Real> definition(a);
  parallel_ranges(stream, a.x.dim(0), 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t m = begin; m < end; ++m) definition.row(m, u + worker * width);
  });
}

}  // namespace

void lora_ref(const LoraArgs& args, Stream& stream) {
  if (args.x.dtype == DType::f64) return define<double, double, double>(args, stream);
  switch_float("lora", args.a.dtype, [&]<class Weight>() { define<float, Weight, double>(args, stream); });
}
void lora_working(const LoraArgs& args, Stream& stream) {
  switch_float("lora", args.a.dtype, [&]<class Weight>() { define<float, Weight, float>(args, stream); });
}

}  // namespace tachy::ops
