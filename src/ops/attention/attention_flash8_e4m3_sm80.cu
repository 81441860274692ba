// Attention in 8 bits with v in e4m3, by flash8_e4m3_sm80.cuh, for GPUs since sm_89. It has not been timed on a card that
// multiplies e4m3 by mma.sync, and its error is three times that of v in 16 bits, so only TACHY_FORCE takes it.
#include "ops/attention/flash8_e4m3_sm80.cuh"
#include "ops/attention/flash8_quantize_sm90.cuh"
#include "ops/attention/flash8_run_sm80.cuh"

namespace tachy::ops {

std::optional<Refusal> attention_why_not_flash8_e4m3(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_eight_bits(a)) return why;
  if (a.q.dims[1] > flash::kMostQueries) return Refusal::arguments("too many queries");
  if (stream.gpu->info().capability() < 89) return Refusal::machine("the GPU does not multiply e4m3");
  return flash::why_not(a, stream, flash::CodesTile::kSharedBytes);
}

void attention_flash8_e4m3(const AttentionArgs& a, Stream& stream) {
  using C = flash::CodesTile;
  const int64_t heads = a.q.dims[0] * a.q.dims[2], lq = a.q.dims[1],
                padded = int64_t{128} * flash::blocks8(a.k);
  const auto tiles = static_cast<unsigned>((lq + C::kRows - 1) / C::kRows),
             all = static_cast<unsigned>(heads);
  ArenaScope scope(*stream.arena);
  const flash::Codes8 codes = flash::take_codes8(a, *stream.arena, true);
  uint8_t *v = nullptr, *bad = nullptr;
  flash::take8(*stream.arena, v, heads * 128 * padded),
      flash::take8(*stream.arena, bad, heads * tiles * C::kWarps);
  cuda::AttentionTally* tally = cuda::attention_tally(*stream.gpu);
  if (stream.measuring()) return;
  const flash::Tokens8 k_tokens = flash::tokens8(a.k), v_tokens = flash::tokens8(a.v);
  flash::make_codes8<128>(a, k_tokens, v_tokens, codes, flash::kTopOfSample, stream);
  cuda::launch("attention (flash8_sm89, v)", flash::transpose8,
               {.grid = dim3(flash::blocks8(a.v), all), .block = dim3(256)}, stream, v_tokens, codes.v_scales,
               padded, v, codes.about);
  const flash::ByteParams p = flash::params8(a, codes, bad, tally);
  cuda::launch("attention (flash8_sm89)", flash::codes_attention_kernel,
               {.grid = dim3(tiles, all), .block = dim3(C::kThreads), .shared_bytes = C::kSharedBytes},
               stream, p, static_cast<const uint8_t*>(v), static_cast<int>(padded));
  flash::compute_again(a,
                       {.bad = bad,
                        .tiles = static_cast<int>(tiles),
                        .warps = C::kWarps,
                        .count = reinterpret_cast<unsigned long long*>(&tally->wide)},
                       stream);
}

}  // namespace tachy::ops
