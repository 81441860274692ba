// The definition, which is also all that the CPU needs: it reads q and k once, and the scores are 1/16,384 of
// attention's products.
#include <cmath>
#include <limits>

#include "ops/choose_blocks/choose_blocks_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

// Computes the means [B, H, blocks, D] over the tokens of each block.
void mean_blocks(const Tensor& x, const Tensor& means, Stream& stream) {
  const int64_t heads = x.dim(2), d = x.dim(3), blocks = means.dim(2);
  parallel_ranges(stream, x.dim(0) * heads * blocks, 1, [&](int64_t i, int64_t, int) {
    const int64_t b = i / (heads * blocks), h = i / blocks % heads, first = i % blocks * kChosenTokens;
    const int64_t count = std::min(kChosenTokens, x.dim(1) - first);
    for (int64_t c = 0; c < d; ++c) {
      const float* from = x.as<float>() + b * x.stride(0) + first * x.stride(1) + h * x.stride(2) + c;
      double sum = 0;
      for (int64_t t = 0; t < count; ++t) sum += static_cast<double>(from[t * x.stride(1)]);
      means.as<float>()[i * d + c] = static_cast<float>(sum / static_cast<double>(count));
    }
  });
}

}  // namespace

void choose_blocks_ref(const ChooseBlocksArgs& a, Stream& stream) {
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3), blocks = chosen_blocks(a.q.dim(1));
  const int64_t capacity = a.indices.dim(3);
  ArenaScope scope(*stream.arena);
  const Tensor q = stream.arena->f32({b, h, blocks, d}), k = stream.arena->f32({b, h, blocks, d});
  auto* scratch =
      static_cast<double*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * blocks) * 8));
  if (stream.measuring()) return;
  mean_blocks(a.q, q, stream), mean_blocks(a.k, k, stream);
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  parallel_ranges(stream, b * h * blocks, 1, [&](int64_t i, int64_t, int worker) {
    double* scores = scratch + worker * blocks;
    const float *mean_q = q.as<float>() + i * d, *mean_k = k.as<float>() + i / blocks * blocks * d;
    for (int64_t j = 0; j < blocks; ++j) {
      // A product of two float32 values is exact in float64, so it does not matter whether the compiler fuses
      // the sum.
      double score = 0;
      for (int64_t c = 0; c < d; ++c)
        score += static_cast<double>(mean_q[c]) * static_cast<double>(mean_k[j * d + c]);
      scores[j] = std::isnan(score) ? kLowest : score;
    }
    int32_t* list = a.indices.as<int32_t>() + i * capacity;
    const int64_t own = i % blocks;
    int64_t count = 0;
    for (int64_t j = 0; j < blocks; ++j) {
      int64_t better = 0;  // how many of the others are better
      for (int64_t other = 0; other < blocks; ++other)
        better += other != own && (scores[other] > scores[j] || (scores[other] == scores[j] && other < j));
      if (j == own || better < a.keep - 1) list[count++] = static_cast<int32_t>(j);
    }
    std::fill(list + count, list + capacity, 0);
    a.counts.as<int32_t>()[i] = static_cast<int32_t>(count);
  });
}

}  // namespace tachy::ops
