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
void features(const float* x, int64_t d, double scale, double* out) {
  double highest = x[0] * scale, total = 0;
  for (int64_t c = 1; c < d; ++c) highest = std::max(highest, x[c] * scale);
  for (int64_t c = 0; c < d; ++c) total += out[c] = std::exp(x[c] * scale - highest);
  for (int64_t c = 0; c < d; ++c) out[c] /= total;
}

// sums += factor · x
template <class T>
void add_times(double* sums, double factor, const T* x, int64_t d) {
  for (int64_t c = 0; c < d; ++c) sums[c] += factor * static_cast<double>(x[c]);
}

}  // namespace

void linear_attention_ref(const LinearAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dim(0), lq = a.q.dim(1), lk = a.k.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  ArenaScope scope(*stream.arena);
  const auto doubles = [&](int64_t count) {
    return static_cast<double*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(double)));
  };
  // For each head φ(k)ᵀ·v [D, D], and Σφ(k) [D] after it.
  const int64_t each = d * d + d, own = 2 * d;
  double *const tables = doubles(b * h * each), *const scratch = doubles(stream.threads() * own);
  if (stream.measuring()) return;
  parallel_ranges(stream, b * h, 1, [&](int64_t i, int64_t, int worker) {
    double *table = tables + i * each, *phi = scratch + worker * own;
    std::fill_n(table, each, 0.0);
    for (int64_t l = 0; l < lk; ++l) {
      features(row_at(a.k, i / h, l, i % h), d, 1, phi);
      const float* v = row_at(a.v, i / h, l, i % h);
      for (int64_t c = 0; c < d; ++c) add_times(table + c * d, phi[c], v, d);
      add_times(table + d * d, 1, phi, d);
    }
  });
  parallel_ranges(stream, b * h * lq, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t i = row / lq, l = row % lq;
    const double* table = tables + i * each;
    double *phi = scratch + worker * own, *sums = phi + d, total = 1e-5;
    features(row_at(a.q, i / h, l, i % h), d, static_cast<double>(a.q_scale), phi);
    std::fill_n(sums, d, 0.0);
    for (int64_t c = 0; c < d; ++c) {
      add_times(sums, phi[c], table + c * d, d);
      total += phi[c] * table[d * d + c];
    }
    float* out = const_cast<float*>(row_at(a.out, i / h, l, i % h));
    for (int64_t c = 0; c < d; ++c) out[c] = static_cast<float>(sums[c] / total);
  });
}

}  // namespace tachy::ops
