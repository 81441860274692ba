// The common Highway code of float32 and bf16 flash attention: the largest score of a row, the rescaling of
// running sums, a tile's loop over its keys, and the final result. Include it inside the foreach_target part,
// after cpu/simd_rows.h.

#if defined(TACHY_OPS_ATTENTION_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_OPS_ATTENTION_SIMD_H_
#undef TACHY_OPS_ATTENTION_SIMD_H_
#else
#define TACHY_OPS_ATTENTION_SIMD_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The largest of a row's scaled and biased scores. A plain row (no biases, positive scale) keeps its scores
// as they are and the caller scales them in the exponent; in other rows the biased scores replace them.
HWY_INLINE float highest_score(float* s, int64_t count, float scale, const float* key_bias, const float* bias,
                               bool plain) {
  const hn::ScalableTag<float> full;
  const float lowest = -std::numeric_limits<float>::infinity();
  auto most = hn::Set(full, lowest), more = most;
  float last = lowest;
  if (plain) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(full));
    int64_t j = 0;
    for (; j + 2 * lanes <= count; j += 2 * lanes) {
      most = hn::Max(most, hn::LoadU(full, s + j));
      more = hn::Max(more, hn::LoadU(full, s + j + lanes));
    }
    for (; j < count; ++j) last = std::max(last, s[j]);
    return std::max(last, hn::GetLane(hn::MaxOfLanes(full, hn::Max(most, more)))) * scale;
  }
  cpu::HWY_NAMESPACE::for_lanes(count, [&](auto d, int64_t j) HWY_ATTR {
    auto t = hn::Mul(hn::LoadU(d, s + j), hn::Set(d, scale));
    if (key_bias) t = hn::Add(t, hn::LoadU(d, key_bias + j));
    if (bias) t = hn::Add(t, hn::LoadU(d, bias + j));
    hn::StoreU(t, d, s + j);
    if constexpr (hn::MaxLanes(d) == hn::MaxLanes(full))
      most = hn::Max(most, t);
    else
      last = std::max(last, hn::GetLane(t));
  });
  return std::max(last, hn::GetLane(hn::MaxOfLanes(full, most)));
}

HWY_INLINE void scale_row(float* row, int64_t count, float factor) {
  cpu::HWY_NAMESPACE::for_lanes(count, [&](auto d, int64_t c) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + c), hn::Set(d, factor)), d, row + c);
  });
}

// A tile of queries, from `first` on, in block `query_block` of lists, that goes through its head's keys block by block. `rows`
// are the rows of the tile, including those past its last query; `o` holds the sums so far, a
// row of `width` floats for each.
struct TileWalk {
  const AttentionArgs& a;
  int64_t b, h, query_block, first, count, rows;
  std::span<const KeyBlock> blocks;
  float* o;
  int64_t stride, width;
  float *highest, *total;
};

// The part of a block of `keys` that a row of a tile sees: keys [from, end), with their biases or null.
struct RowOfScores {
  int64_t index, from, end, keys;
  const float *key_bias, *bias;
};

// Visits each block that any of the rows sees, or only those in the queries' list. multiply(block, keys)
// computes the scores. soften(row, &rescale) turns a row's scores into weights, zeros for keys that it does
// not see, and returns their sum. add(block, keys) adds the weighted values.
template <class Multiply, class Soften, class Add>
HWY_INLINE void walk_keys(const TileWalk& w, Multiply&& multiply, Soften&& soften, Add&& add) {
  const AttentionArgs& a = w.a;
  const bool lists = a.blocks.defined();
  const auto listed = lists ? listed_blocks(a.blocks, w.b, w.h, w.query_block) : std::span<const int32_t>();
  for (size_t step = 0; step < (lists ? listed.size() : w.blocks.size()); ++step) {
    const size_t block = lists ? static_cast<size_t>(listed[step]) : step;
    const auto& [range, present, key, whole] = w.blocks[block];
    // The largest part of the block that any row of the tile sees.
    const int64_t keys = std::min(whole, visible_keys(*range, w.first + w.count - 1, present) - key);
    if (keys <= 0 || first_key(*range, w.first) >= key + keys) continue;
    multiply(block, keys);
    const float* key_bias = range->key_bias.defined() ? row_ptr(range->key_bias, w.b) + key : nullptr;
    for (int64_t i = 0; i < w.rows; ++i) {
      const float* bias = a.bias.defined() && i < w.count
                              ? row_ptr(a.bias, w.h) + (w.first + i) * a.bias.strides[1] + key
                              : nullptr;
      const int64_t query = w.first + std::min(i, w.count - 1);  // rows past the last query repeat it
      const int64_t end = std::clamp<int64_t>(visible_keys(*range, query, present) - key, 0, keys);
      const int64_t from = std::clamp<int64_t>(first_key(*range, query) - key, 0, end);
      float rescale = 1;
      const float sum = soften(
          {i, from, end, keys, key_bias ? key_bias + from : nullptr, bias ? bias + from : nullptr}, &rescale);
      if (from == end) continue;
      w.total[i] = w.total[i] * rescale + sum;
      if (rescale == 1.0f || step == 0) continue;
      scale_row(w.o + i * w.stride, w.width, rescale);
    }
    add(block, keys);
  }
}

// Finishes a query: `row` (Σ weights · V) divided by the weights' sum goes to out, and lse is written. The
// sum is 0 only if highest is −inf.
HWY_INLINE void write_query(const AttentionArgs& a, int64_t b, int64_t h, int64_t query, const float* row,
                            float highest, float total) {
  const float factor = total == 0.0f ? 0.0f : 1.0f / total;
  if (a.lse.defined())
    const_cast<float*>(row_ptr(a.lse, b))[h * a.lse.strides[1] + query] = highest + std::log(total);
  float* out = static_cast<float*>(a.out.data) + b * a.out.strides[0] + query * a.out.strides[1] +
               h * a.out.strides[2];
  cpu::HWY_NAMESPACE::for_lanes(a.out.dims[3], [&](auto d, int64_t c) HWY_ATTR {
    const auto value = hn::Mul(hn::LoadU(d, row + c), hn::Set(d, factor));
    hn::StoreU(a.accumulate ? hn::Add(hn::LoadU(d, out + c), value) : value, d, out + c);
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
