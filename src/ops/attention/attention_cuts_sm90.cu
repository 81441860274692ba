// Attention over lists of key blocks that are cut to at most 64 tokens, by flash_cuts_sm90.cuh on Hopper, in bf16 and
// f16, for head dims up to 64 and up to 128.
#include "ops/attention/attention_cuts.h"
#include "ops/attention/flash_cuts_sm90.cuh"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

template <class T, int kDim>
void run(const AttentionArgs& a, Stream& stream) {
  using C = flash::CutTile90<T, kDim>;
  const BlockLists& lists = a.blocks;
  const bool pairs = lists.queries.defined();
  const auto batch = static_cast<unsigned>(a.q.dims[0]), heads = static_cast<unsigned>(a.q.dims[2]);
  const int64_t query_blocks = flash::blocks_of(lists.queries, a.q.dims[1]), capacity = lists.indices.dims[3];
  const int64_t units = pairs ? (query_blocks + 1) / 2 : query_blocks;
  // A pair's lists may have no block in common, and then each has a block too many for steps of two.
  const int64_t most = pairs ? capacity + 2 : capacity / 2 + 1;
  ArenaScope scope(*stream.arena);
  const size_t all = static_cast<size_t>(a.q.dims[0] * a.q.dims[2] * units);
  auto* steps = static_cast<uint2*>(stream.arena->bytes(all * static_cast<size_t>(most) * sizeof(uint2)));
  auto* counts = static_cast<int32_t*>(stream.arena->bytes(all * sizeof(int32_t)));
  if (stream.measuring()) return;
  const dim3 grid(static_cast<unsigned>(units), heads, batch);
  const flash::CutSteps plan{.lists = flash::cut_lists_of(a),
                             .lk = static_cast<int>(a.k.dims[1]),
                             .query_blocks = static_cast<int>(query_blocks),
                             .pairs = pairs,
                             .steps = steps,
                             .counts = counts,
                             .most = static_cast<int>(most)};
  cuda::launch(
      "attention (cuts_sm90, steps)", flash::flash_cut_steps,
      {.grid = grid, .block = dim3(256), .shared_bytes = static_cast<size_t>(plan.lists.last + 1) * 4},
      stream, plan);
  const flash::Params90 from = flash::params90(a);
  const flash::CutParams90 p{.out = from.out,
                             .out_batch = from.out_batch,
                             .out_row = from.out_row,
                             .out_head = from.out_head,
                             .lse = from.lse,
                             .lse_batch = from.lse_batch,
                             .lse_head = from.lse_head,
                             .lq = from.lq,
                             .d = from.d,
                             .query_blocks = plan.query_blocks,
                             .most = plan.most,
                             .pairs = pairs,
                             .query_ends = plan.lists.query_ends,
                             .steps = steps,
                             .counts = counts,
                             .scale_log2 = from.scale_log2};
  flash::CutMaps90 maps{};
  maps.q = flash::tokens_map(a.q, flash::kCutTokens);
  for (int i = 0; i < flash::kCutMaps; ++i)
    maps.k[i] = flash::tokens_map(a.k, flash::kCutTokens >> i),
    maps.v[i] = flash::tokens_map(a.v, flash::kCutTokens >> i);
  cuda::launch("attention (cuts_sm90)", flash::cuts90_kernel<C>,
               {.grid = grid, .block = dim3(384), .shared_bytes = C::kSharedBytes}, stream, maps, p);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run<T, 64>(a, stream) : run<T, 128>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_cuts_sm90(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_cuts(a)) return why;
  if (a.k.dims[1] >= flash::kMostCutTokens || a.blocks.keys.ends.dims[0] > flash::kMostCutBlocks ||
      a.blocks.indices.dims[3] > flash::kMostListed)
    return Refusal::arguments("too many keys or blocks of them");
  if (auto why = flash::why_not_sm90(a, stream)) return why;
  return flash::why_not(a, stream, flash::CutTile90<__nv_bfloat16, 128>::kSharedBytes);
}

void attention_cuts_sm90(const AttentionArgs& a, Stream& stream) {
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
