// The definition, and the only way on a CPU. Its inner loops are sums of adjacent values, which compilers vectorise;
// its products are a hundredth of those of attention to all keys.
#include <algorithm>
#include <cmath>

#include "ops/linear_attention/linear_attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

const float* row_at(const Tensor& t, int64_t b, int64_t l, int64_t h) {
  return t.as<float>() + b * t.stride(0) + l * t.stride(1) + h * t.stride(2);
}

// The softmax of a head's channels.
template <class Real>
void features(const float* x, int64_t d, Real scale, Real* out) {
  Real highest = x[0] * scale, total = 0;
  for (int64_t c = 1; c < d; ++c) highest = std::max(highest, x[c] * scale);
  for (int64_t c = 0; c < d; ++c) total += out[c] = std::exp(x[c] * scale - highest);
  for (int64_t c = 0; c < d; ++c) out[c] /= total;
}

// sums += factor · x
template <class Real, class T>
void add_times(Real* sums, Real factor, const T* x, int64_t d) {
  for (int64_t c = 0; c < d; ++c) sums[c] += factor * static_cast<Real>(x[c]);
}

template <class Real>
void define(const LinearAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dim(0), lq = a.q.dim(1), lk = a.k.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  ArenaScope scope(*stream.arena);
  const auto reals = [&](int64_t count) {
    return static_cast<Real*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(Real)));
  };
  // For each head φ(k)ᵀ·v [D, D], and Σφ(k) [D] after it.
  const int64_t each = d * d + d, own = 2 * d;
  Real *const tables = reals(b * h * each), *const scratch = reals(stream.threads() * own);
  if (stream.measuring()) return;
  parallel_ranges(stream, b * h, 1, [&](int64_t i, int64_t, int worker) {
    Real *table = tables + i * each, *phi = scratch + worker * own;
    std::fill_n(table, each, Real(0));
    for (int64_t l = 0; l < lk; ++l) {
      features<Real>(row_at(a.k, i / h, l, i % h), d, 1, phi);
      const float* v = row_at(a.v, i / h, l, i % h);
      for (int64_t c = 0; c < d; ++c) add_times(table + c * d, phi[c], v, d);
      add_times<Real>(table + d * d, 1, phi, d);
    }
  });
  parallel_ranges(stream, b * h * lq, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t i = row / lq, l = row % lq;
    const Real* table = tables + i * each;
    Real *phi = scratch + worker * own, *sums = phi + d, total = Real(1e-5);
    features<Real>(row_at(a.q, i / h, l, i % h), d, static_cast<Real>(a.q_scale), phi);
    std::fill_n(sums, d, Real(0));
    for (int64_t c = 0; c < d; ++c) {
      add_times(sums, phi[c], table + c * d, d);
      total += phi[c] * table[d * d + c];
    }
    float* out = const_cast<float*>(row_at(a.out, i / h, l, i % h));
    for (int64_t c = 0; c < d; ++c) out[c] = static_cast<float>(sums[c] / total);
  });
}

}  // namespace

void linear_attention_ref(const LinearAttentionArgs& args, Stream& stream) { define<double>(args, stream); }
void linear_attention_working(const LinearAttentionArgs& args, Stream& stream) {
  define<float>(args, stream);
}

}  // namespace tachy::ops
