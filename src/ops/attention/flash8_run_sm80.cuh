// The common code of the launchers of flash8_sm80.cuh's kernels: rounding, their parameters, and the launch that repairs.
#pragma once

#include "cuda/attention_tally.h"
#include "ops/attention/flash8_launch.cuh"
#include "ops/attention/flash8_quantize_sm80.cuh"
#include "ops/attention/flash8_ranges_sm80.cuh"
#include "ops/attention/flash_again.cuh"

namespace tachy::ops::flash {

// How the keys come: all of one range, blocks of it, or joined ones.
enum class By { whole, lists, ranges };

inline ByteParams params8(const AttentionArgs& a, const Codes8& codes, uint8_t* bad,
                          cuda::AttentionTally* tally) {
  return {.to = params_of(a),
          .q = codes.q,
          .k = codes.k,
          .q_scales = codes.q_scales,
          .q_offsets = codes.q_offsets,
          .k_scales = codes.k_scales,
          .v_scales = codes.v_scales,
          .about = codes.about,
          .bad = bad,
          .asked = reinterpret_cast<unsigned long long*>(&tally->asked),
          .heads = static_cast<int>(a.q.dims[2])};
}

// Rounds, calls attend(parameters, grid), and repairs. Nothing is called while memory is counted.
template <class C, By kBy>
void run8(const AttentionArgs& a, Stream& stream, auto&& attend) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2], lq = a.q.dims[1], lk = all_keys(a);
  const auto tiles = static_cast<unsigned>((lq + C::kRows - 1) / C::kRows),
             all = static_cast<unsigned>(heads);
  ArenaScope scope(*stream.arena);
  const Codes8 codes = take_codes8(a, *stream.arena, C::kHalf, C::kDim);
  __half* v = nullptr;
  if (C::kHalf || kBy == By::ranges) take8(*stream.arena, v, heads * lk * C::kDim);
  uint8_t* bad = nullptr;
  take8(*stream.arena, bad, heads * tiles * C::kWarps);
  cuda::AttentionTally* tally = cuda::attention_tally(*stream.gpu);
  if (stream.measuring()) return;
  const auto prepare = [&](const auto& k_tokens, const auto& v_tokens) {
    using X = std::remove_cvref_t<decltype(v_tokens)>;
    make_codes8<C::kDim>(a, k_tokens, v_tokens, codes, kTopInHalf, stream);
    const cuda::LaunchShape shape{.grid = dim3(blocks8(lk), all), .block = dim3(256)};
    if constexpr (C::kHalf)
      cuda::launch("attention (flash8_sm80, v)", halve8<C::kDim, X>, shape, stream, v_tokens, codes.v_scales,
                   v, codes.about);
    else if constexpr (kBy == By::ranges)
      cuda::launch("attention (flash8_sm80, v)", join8<C::kDim>, shape, stream, v_tokens,
                   reinterpret_cast<__nv_bfloat16*>(v));
  };
  if constexpr (kBy == By::ranges)
    prepare(joined8(a, &KeyRange::k), joined8(a, &KeyRange::v));
  else
    prepare(tokens8(a.k), tokens8(a.v));
  ByteParams p = params8(a, codes, bad, tally);
  p.to.lk = static_cast<int>(lk), p.v = v;
  attend(p, dim3(tiles, all));
  compute_again(a,
                {.bad = bad,
                 .tiles = static_cast<int>(tiles),
                 .warps = C::kWarps,
                 .count = reinterpret_cast<unsigned long long*>(&tally->wide)},
                stream);
}

}  // namespace tachy::ops::flash
