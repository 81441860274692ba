// The definition: a row of scores at a time, softmax with its maximum subtracted, weighted sum of values.
#include <cmath>
#include <limits>

#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store>
Store* at(const Tensor& t, int64_t b, int64_t l, int64_t h) {
  return static_cast<Store*>(t.data) + b * t.strides[0] + l * t.strides[1] + h * t.strides[2];
}

template <class Store, class Real>
void define(const AttentionArgs& a, Stream& stream) {
  const int64_t batch = a.q.dim(0), lq = a.q.dim(1), heads = a.q.dim(2), d = a.q.dim(3), lk = a.k.dim(1);
  ArenaScope scope(*stream.arena);
  auto* scratch = static_cast<Real*>(stream.arena->bytes(stream.threads() * (lk + d) * sizeof(Real)));
  if (stream.measuring()) return;
  parallel_ranges(stream, batch * heads * lq, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t b = row / (heads * lq), h = row / lq % heads, i = row % lq, seen = visible_keys(a, i);
    Real *score = scratch + worker * (lk + d), *sum = score + lk;
    const Store* q = at<Store>(a.q, b, i, h);
    const Store* key_bias = row_of<Store>(a.key_bias, b);
    const Store* bias = a.bias.defined() ? row_of<Store>(a.bias, h) + i * a.bias.stride(1) : nullptr;
    Real highest = -std::numeric_limits<Real>::infinity(), total = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const Store* k = at<Store>(a.k, b, j, h);
      Real dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += Real(q[c]) * Real(k[c]);
      score[j] = dot * Real(a.scale);
      // Added in the tensors' dtype: a mask of finfo.min must swallow the score, as it does in PyTorch.
      if (key_bias) score[j] = static_cast<Store>(score[j]) + key_bias[j];
      if (bias) score[j] = static_cast<Store>(score[j]) + bias[j];
      highest = std::max(highest, score[j]);
    }
    for (int64_t c = 0; c < d; ++c) sum[c] = 0;
    const bool masked = highest == -std::numeric_limits<Real>::infinity();
    for (int64_t j = 0; j < seen && !masked; ++j) {
      const Store* v = at<Store>(a.v, b, j, h);
      const Real weight = std::exp(score[j] - highest);
      total += weight;
      for (int64_t c = 0; c < d; ++c) sum[c] += weight * Real(v[c]);
    }
    Store* out = at<Store>(a.out, b, i, h);
    for (int64_t c = 0; c < d; ++c) {
      const Real value = masked ? Real(0) : sum[c] / total;
      out[c] = static_cast<Store>(a.accumulate ? Real(out[c]) + value : value);
    }
    if (a.lse.defined())
      row_of<Store>(a.lse, b)[h * a.lse.stride(1) + i] =
          static_cast<Store>(masked ? highest : highest + std::log(total));
  });
}

}  // namespace

void attention_ref(const AttentionArgs& args, Stream& stream) {
  with_store(args.q, [&]<class Store>() { define<Store, double>(args, stream); });
}
void attention_working(const AttentionArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
