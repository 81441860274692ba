// Five kernels, each with the whole GPU for itself:
//
//   means    of the tokens of each block (coarse_means.cuh)
//   norms    the largest mean key of a head, for the bound below
//   scores   products of means in float32 (coarse_scores.cuh)
//   choice   the lists, by the definition's scores in float64 where those in float32 are too near to one another, and
//            weights (coarse_choice.cuh)
//   result   weights times mean values (coarse_result.cuh)
//
// Scores of all heads would take too much memory for long videos, so the last three take some heads at a time.
#include "cuda/dispatch.h"
#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/coarse_attention/coarse_choice.cuh"
#include "ops/coarse_attention/coarse_means.cuh"
#include "ops/coarse_attention/coarse_result.cuh"

namespace tachy::ops {
namespace {

constexpr int64_t kMostScores = 32 << 20;  // of a pass: 128 MB

int64_t key_blocks_of(const CoarseAttentionArgs& a) {
  return a.key_ends.defined() ? a.key_ends.dims[0] : (a.k.dims[1] + kCoarseTokens - 1) / kCoarseTokens;
}
// The choice may need a list's scores in float64.
size_t exact_bytes(int64_t keys) { return static_cast<size_t>(keys) * sizeof(double); }

void launch_means(const CoarseAttentionArgs& a, int64_t queries, int64_t keys, float* q, float* k, float* v,
                  const Stream& stream) {
  const int64_t b = a.q.dims[0], h = a.q.dims[2], d = a.q.dims[3];
  CoarseMeans means{.heads = static_cast<int>(h), .d = static_cast<int>(d)};
  unsigned tensors = 0;
  bool packs = true;
  const auto add = [&](const Tensor& x, const Tensor& ends, float* to, int64_t blocks, bool across) {
    means.sources[tensors++] = {.x = x.data,
                                .batch = x.strides[0],
                                .row = x.strides[1],
                                .head = x.strides[2],
                                .ends = static_cast<const int32_t*>(ends.data),
                                .means = to,
                                .tokens = static_cast<int>(x.dims[1]),
                                .blocks = static_cast<int>(blocks),
                                .across = across};
    packs = packs && cuda::fits_packs(static_cast<int>(16 / dtype_size(x.dtype)), {&x});
  };
  add(a.q, a.query_ends, q, queries, true), add(a.k, a.key_ends, k, keys, true);
  if (v) add(a.v, a.key_ends, v, keys, false);
  cuda::dispatch_float("coarse_attention", a.q.dtype, [&]<class T>() {
    const auto launch = [&]<int kPack>() {
      const int64_t threads = std::max(queries, keys) * h * (d / kPack);
      cuda::launch("coarse_attention (means)", coarse_means_kernel<T, kPack>,
                   {.grid = dim3(cuda::blocks_for(threads, kMeanThreads), tensors, static_cast<unsigned>(b)),
                    .block = dim3(kMeanThreads)},
                   stream, means);
    };
    packs ? launch.template operator()<device::kPack<T>>() : launch.template operator()<1>();
  });
}

void launch_scores(const CoarseScores& p, int64_t heads, const Stream& stream) {
  const auto in_z = static_cast<unsigned>(heads), keys = static_cast<unsigned>(coarse_tiles(p.keys)),
             queries = static_cast<unsigned>(coarse_tiles(p.queries));
  cuda::launch("coarse_attention (norms)", coarse_norms_kernel,
               {.grid = dim3(keys, in_z), .block = dim3(kScoreTile)}, stream, p);
  const bool packs = p.queries % 4 == 0 && p.keys % 4 == 0;
  cuda::launch("coarse_attention (scores)", packs ? coarse_scores_kernel<true> : coarse_scores_kernel<false>,
               {.grid = dim3(keys, queries, in_z), .block = dim3(kScoreThreads)}, stream, p);
}

void launch_choice(const CoarseChoice& p, int64_t heads, const Stream& stream) {
  const auto launch = [&](auto kernel) {
    cuda::launch("coarse_attention (choice)", kernel,
                 {.grid = dim3(cuda::blocks_for(p.of.queries, kChoiceLists), static_cast<unsigned>(heads)),
                  .block = dim3(kChoiceThreads),
                  .shared_bytes = exact_bytes(p.of.keys)},
                 stream, p);
  };
  const int groups = (p.of.keys + 31) / 32;
  if (groups <= 8) return launch(coarse_choice_kernel<8>);
  if (groups <= 20) return launch(coarse_choice_kernel<20>);
  if (groups <= 48) return launch(coarse_choice_kernel<48>);
  launch(coarse_choice_kernel<0>);
}

void launch_result(const CoarseResult& p, int64_t heads, const Stream& stream) {
  cuda::launch("coarse_attention (result)",
               p.d % 4 == 0 ? coarse_result_kernel<true> : coarse_result_kernel<false>,
               {.grid = dim3(cuda::blocks_for(p.queries, kResultLists),
                             cuda::blocks_for(p.d, kResultChannels), static_cast<unsigned>(heads)),
                .block = dim3(kResultThreads)},
               stream, p);
}

}  // namespace

std::optional<Refusal> coarse_attention_why_not_cuda(const CoarseAttentionArgs& a, const Stream& stream) {
  if (stream.gpu->info().capability() < 80) return Refusal::weak_gpu("it needs compute capability 8.0");
  if (a.q.dims[0] * a.q.dims[2] > 65535) return Refusal::arguments("too many heads or batches");
  const int64_t keys = key_blocks_of(a);
  constexpr size_t others = 4096;  // of shared memory, at most
  if (exact_bytes(keys) + others > stream.gpu->info().shared_bytes)
    return Refusal::arguments("too many blocks of keys, ", std::to_string(keys));
  return std::nullopt;
}

void coarse_attention_cuda(const CoarseAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dims[0], h = a.q.dims[2], d = a.q.dims[3];
  const int64_t queries = a.counts.dims[2], keys = key_blocks_of(a), row = (keys + 3) / 4 * 4, heads = b * h;
  if (heads == 0) return;
  ArenaScope scope(*stream.arena);
  const auto values = [&]<class T>(int64_t count) {
    return static_cast<T*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(T)));
  };
  const int64_t at_once = std::clamp<int64_t>(kMostScores / (queries * row), 1, heads);
  float *q = values.operator()<float>(heads * queries * d), *k = values.operator()<float>(heads * keys * d),
        *v = a.out.defined() ? values.operator()<float>(heads * keys * d) : nullptr;
  auto* scores = values.operator()<float>(at_once * queries * row);
  auto* totals = a.out.defined() ? values.operator()<float>(at_once * queries) : nullptr;
  auto* norms = values.operator()<double>(at_once * coarse_tiles(static_cast<int>(keys)));
  if (stream.measuring()) return;
  launch_means(a, queries, keys, q, k, v, stream);
  for (int64_t first = 0; first < heads; first += at_once) {
    const int64_t count = std::min(at_once, heads - first);
    const CoarseScores of{.q = q + first * queries * d,
                          .k = k + first * keys * d,
                          .norms = norms,
                          .scores = scores,
                          .queries = static_cast<int>(queries),
                          .keys = static_cast<int>(keys),
                          .d = static_cast<int>(d),
                          .row = static_cast<int>(row)};
    launch_scores(of, count, stream);
    launch_choice({.of = of,
                   .totals = totals,
                   .indices = static_cast<int32_t*>(a.indices.data) + first * queries * a.keep,
                   .counts = static_cast<int32_t*>(a.counts.data) + first * queries,
                   .keep = static_cast<int>(a.keep),
                   .scale = a.scale},
                  count, stream);
    if (!v) continue;
    launch_result({.weights = scores,
                   .totals = totals,
                   .v = v + first * keys * d,
                   .out = static_cast<float*>(a.out.data),
                   .queries = static_cast<int>(queries),
                   .keys = static_cast<int>(keys),
                   .row = static_cast<int>(row),
                   .d = static_cast<int>(d),
                   .heads = static_cast<int>(h),
                   .first_head = static_cast<int>(first)},
                  count, stream);
  }
}

}  // namespace tachy::ops
