// The definition, which is also all that the CPU needs: it reads q, k and v once, and the scores of blocks are
// 1/4,096 of those of tokens, or fewer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

struct CoarseSpan {
  int64_t first, end;
  int64_t count() const { return end - first; }
};
CoarseSpan coarse_span(const Tensor& ends, int64_t tokens, int64_t i) {
  if (!ends.defined()) return {i * kCoarseTokens, std::min(tokens, (i + 1) * kCoarseTokens)};
  return {i > 0 ? ends.as<int32_t>()[i - 1] : 0, ends.as<int32_t>()[i]};
}

// Computes the means [B, H, blocks, D] over the tokens of each block.
template <class Real>
void mean_cuts(const Tensor& x, const Tensor& ends, const Tensor& means, Stream& stream) {
  const int64_t heads = x.dim(2), d = x.dim(3), blocks = means.dim(2);
  parallel_ranges(stream, x.dim(0) * heads * blocks, 1, [&](int64_t i, int64_t, int) {
    const int64_t b = i / (heads * blocks), h = i / blocks % heads;
    const CoarseSpan span = coarse_span(ends, x.dim(1), i % blocks);
    for (int64_t c = 0; c < d; ++c) {
      const float* from = x.as<float>() + b * x.stride(0) + span.first * x.stride(1) + h * x.stride(2) + c;
      Real sum = 0;
      for (int64_t t = 0; t < span.count(); ++t) sum += static_cast<Real>(from[t * x.stride(1)]);
      means.as<float>()[i * d + c] = static_cast<float>(sum / static_cast<Real>(span.count()));
    }
  });
}

template <class Real>
struct Scores {
  Real* values;    // of one block of queries, for each block of keys
  int32_t* order;  // scratch for sorting them
};

// Lists the `keep` blocks with the largest scores.
template <class Real>
void take_best(const Scores<Real>& scores, int64_t blocks, int64_t keep, int32_t* list) {
  std::iota(scores.order, scores.order + blocks, 0);
  std::nth_element(scores.order, scores.order + keep - 1, scores.order + blocks, [&](int32_t x, int32_t y) {
    return scores.values[x] > scores.values[y] || (scores.values[x] == scores.values[y] && x < y);
  });
  std::sort(scores.order, scores.order + keep);
  std::copy_n(scores.order, keep, list);
}

template <class Real>
void define(const CoarseAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3), queries = a.counts.dim(2),
                keys = coarse_blocks(a.key_ends, a.k.dim(1));
  ArenaScope scope(*stream.arena);
  const Tensor q = stream.arena->f32({b, h, queries, d}), k = stream.arena->f32({b, h, keys, d}),
               v = a.out.defined() ? stream.arena->f32({b, h, keys, d}) : Tensor();
  const int64_t each = keys + (a.out.defined() ? d : 0);
  auto* scratch =
      static_cast<Real*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * each) * sizeof(Real)));
  auto* orders = static_cast<int32_t*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * keys) * 4));
  if (stream.measuring()) return;
  mean_cuts<Real>(a.q, a.query_ends, q, stream), mean_cuts<Real>(a.k, a.key_ends, k, stream);
  if (a.out.defined()) mean_cuts<Real>(a.v, a.key_ends, v, stream);
  parallel_ranges(stream, b * h * queries, 1, [&](int64_t i, int64_t, int worker) {
    const Scores<Real> scores{scratch + worker * each, orders + worker * keys};
    const float *mean_q = q.as<float>() + i * d, *mean_k = k.as<float>() + i / queries * keys * d;
    Real highest = -std::numeric_limits<Real>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
      // A product of two float32 values is exact in float64, so it does not matter whether the compiler fuses
      // the sum.
      Real score = 0;
      for (int64_t c = 0; c < d; ++c)
        score += static_cast<Real>(mean_q[c]) * static_cast<Real>(mean_k[j * d + c]);
      scores.values[j] = std::isnan(score) ? -std::numeric_limits<Real>::infinity() : score;
      highest = std::max(highest, scores.values[j] * static_cast<Real>(a.scale));
    }
    take_best(scores, keys, a.keep, a.indices.as<int32_t>() + i * a.keep);
    a.counts.as<int32_t>()[i] = static_cast<int32_t>(a.keep);
    if (!a.out.defined()) return;
    const float* mean_v = v.as<float>() + i / queries * keys * d;
    Real *sums = scratch + worker * each + keys, total = 0;
    std::fill_n(sums, d, Real(0));
    for (int64_t j = 0; j < keys; ++j) {
      const Real weight = std::exp(scores.values[j] * static_cast<Real>(a.scale) - highest);
      total += weight;
      for (int64_t c = 0; c < d; ++c) sums[c] += weight * static_cast<Real>(mean_v[j * d + c]);
    }
    const int64_t item = i / (h * queries), head = i / queries % h, block = i % queries;
    float* out = a.out.as<float>() + ((item * queries + block) * h + head) * d;
    for (int64_t c = 0; c < d; ++c) out[c] = static_cast<float>(sums[c] / total);
  });
}

}  // namespace

void coarse_attention_ref(const CoarseAttentionArgs& args, Stream& stream) { define<double>(args, stream); }
void coarse_attention_working(const CoarseAttentionArgs& args, Stream& stream) {
  define<float>(args, stream);
}

}  // namespace tachy::ops
