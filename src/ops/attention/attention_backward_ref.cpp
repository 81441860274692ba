#include <cmath>

#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store>
Store* head_at(const Tensor& t, int64_t b, int64_t l, int64_t h) {
  return static_cast<Store*>(t.data) + b * t.strides[0] + l * t.strides[1] + h * t.strides[2];
}

template <class Store, class Real>
Real dot(const Store* x, const Store* y, int64_t d) {
  Real sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += Real(x[c]) * Real(y[c]);
  return sum;
}

// Computes p and t of one query and key.
template <class Store, class Real>
std::pair<Real, Real> pair_gradient(const AttentionBackwardArgs& a, int64_t b, int64_t h, int64_t i,
                                    int64_t j) {
  const AttentionArgs& f = a.forward;
  const int64_t d = f.q.dims[3];
  const Real lse = row_of<Store>(f.lse, b)[h * f.lse.strides[1] + i];
  if (j >= visible_keys(f, i) || std::isinf(lse)) return {0, 0};
  Real score =
      dot<Store, Real>(head_at<Store>(f.q, b, i, h), head_at<Store>(f.k, b, j, h), d) * Real(f.scale);
  if (f.key_bias.defined()) score = static_cast<Store>(score) + row_of<Store>(f.key_bias, b)[j];
  if (f.bias.defined())
    score = static_cast<Store>(score) + row_of<Store>(f.bias, h)[i * f.bias.strides[1] + j];
  const Real p = std::exp(score - lse);
  const Store* dout = head_at<Store>(a.dout, b, i, h);
  const Real delta = dot<Store, Real>(dout, head_at<Store>(f.out, b, i, h), d);
  return {p, p * (dot<Store, Real>(dout, head_at<Store>(f.v, b, j, h), d) - delta)};
}

template <class Store, class Real>
void define(const AttentionBackwardArgs& a, Stream& stream) {
  const AttentionArgs& f = a.forward;
  const int64_t batch = f.q.dim(0), lq = f.q.dim(1), heads = f.q.dim(2), d = f.q.dim(3), lk = f.k.dim(1);
  ArenaScope scope(*stream.arena);
  auto* scratch = static_cast<Real*>(stream.arena->bytes(stream.threads() * 2 * d * sizeof(Real)));
  if (stream.measuring()) return;
  parallel_ranges(stream, batch * heads * lq, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t b = row / (heads * lq), h = row / lq % heads, i = row % lq;
    Real* dq = scratch + worker * 2 * d;
    for (int64_t c = 0; c < d; ++c) dq[c] = 0;
    for (int64_t j = 0; j < lk; ++j) {
      const Real t = pair_gradient<Store, Real>(a, b, h, i, j).second;
      for (int64_t c = 0; c < d; ++c) dq[c] += t * Real(head_at<Store>(f.k, b, j, h)[c]);
    }
    for (int64_t c = 0; c < d; ++c)
      head_at<Store>(a.dq, b, i, h)[c] = static_cast<Store>(dq[c] * Real(f.scale));
  });
  parallel_ranges(stream, batch * heads * lk, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t b = row / (heads * lk), h = row / lk % heads, j = row % lk;
    Real *dk = scratch + worker * 2 * d, *dv = dk + d;
    for (int64_t c = 0; c < 2 * d; ++c) dk[c] = 0;
    for (int64_t i = 0; i < lq; ++i) {
      const auto [p, t] = pair_gradient<Store, Real>(a, b, h, i, j);
      for (int64_t c = 0; c < d; ++c) {
        dk[c] += t * Real(head_at<Store>(f.q, b, i, h)[c]);
        dv[c] += p * Real(head_at<Store>(a.dout, b, i, h)[c]);
      }
    }
    for (int64_t c = 0; c < d; ++c) {
      head_at<Store>(a.dk, b, j, h)[c] = static_cast<Store>(dk[c] * Real(f.scale));
      head_at<Store>(a.dv, b, j, h)[c] = static_cast<Store>(dv[c]);
    }
  });
}

}  // namespace

void attention_backward_ref(const AttentionBackwardArgs& args, Stream& stream) {
  with_store(args.forward.q, [&]<class Store>() { define<Store, double>(args, stream); });
}
void attention_backward_working(const AttentionBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
