// The common code of the launchers of attention in 8 bits: which arguments they take, and q and k as int8 in
// scratch (flash8_codes.cuh).
#pragma once

#include "ops/attention/flash8_codes.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops::flash {

// From about 1,200 keys on, the time that rounding takes is won back (on Hopper).
constexpr int64_t kLeastKeys8 = 2048;

inline Tokens8 tokens8(const Tensor& t) {
  return {static_cast<const __nv_bfloat16*>(t.data),
          t.strides[0],
          t.strides[1],
          t.strides[2],
          static_cast<int>(t.dims[1]),
          static_cast<int>(t.dims[2]),
          static_cast<int>(t.dims[3])};
}

template <class T>
void take8(Arena& arena, T*& to, int64_t count) {
  to = static_cast<T*>(arena.bytes(static_cast<size_t>(count) * sizeof(T)));
}

// Data that the kernels pass to one another, in the arena.
struct Codes8 {
  int8_t *q, *k;
  float *q_scales, *q_offsets, *k_scales, *v_scales;
  __nv_bfloat16* k_means;
  Head8* about;
};

inline unsigned blocks8(int64_t tokens) { return static_cast<unsigned>((tokens + 127) / 128); }
inline unsigned blocks8(const Tensor& t) { return blocks8(t.dims[1]); }

// The keys of all ranges, whether they exist or not.
inline int64_t all_keys(const AttentionArgs& a) {
  int64_t keys = 0;
  for (int i = 0; i < a.ranges(); ++i) keys += a.range(i).k.dims[1];
  return keys;
}

// `dim`: channels of a row of codes, 128 or 64.
inline Codes8 take_codes8(const AttentionArgs& a, Arena& arena, bool v_too, int dim = 128) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2], lq = a.q.dims[1], lk = all_keys(a);
  Codes8 c{};
  take8(arena, c.q, heads * lq * dim), take8(arena, c.k, heads * lk * dim);
  take8(arena, c.q_scales, heads * lq), take8(arena, c.k_scales, heads * blocks8(lk));
  if (a.lse.defined()) take8(arena, c.q_offsets, heads * lq);
  if (v_too) take8(arena, c.v_scales, heads * 128);
  take8(arena, c.k_means, heads * 128), take8(arena, c.about, heads);
  return c;
}

// Rounds q and k. If there is room for v's scales, they become the sample's largest |v| over `v_top`. k and v are
// Tokens8, or the ranges of flash8_ranges_sm80.cuh.
template <int kDim, class X>
void make_codes8(const AttentionArgs& a, const X& k, const X& v, const Codes8& c, float v_top,
                 Stream& stream) {
  const auto heads = static_cast<unsigned>(a.q.dims[0] * a.q.dims[2]);
  const float scale_log2 = a.scale == kPowersOfTwo ? 1 : a.scale * kLog2e;
  const dim3 threads(4 * kDim);
  cuda::launch("attention (flash8, samples)", sample8<X>, {.grid = dim3(heads), .block = dim3(1024)}, stream,
               k, v, v_top, c.k_means, c.v_scales, c.about);
  cuda::launch("attention (flash8, k)", turn8<true, kDim, X>,
               {.grid = dim3(blocks8(all_keys(a)), heads), .block = threads}, stream, k, c.k_means, 1.0f, c.k,
               c.k_scales, nullptr, c.about);
  cuda::launch("attention (flash8, q)", turn8<false, kDim, Tokens8>,
               {.grid = dim3(blocks8(a.q), heads), .block = threads}, stream, tokens8(a.q), c.k_means,
               scale_log2 / kDim, c.q, c.q_scales, c.q_offsets, c.about);
}

// Checks everything that each kernel in 8 bits requires, but for masks, the keys and the machine.
inline std::optional<Refusal> why_not_rounded(const AttentionArgs& a) {
  if (!a.eight_bits) return Refusal::settings("8 bits are not asked for");
  if (a.q.dtype != DType::bf16) return Refusal::arguments("activations that are not bf16");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  if (a.q.dims[0] * a.q.dims[2] > 65535) return Refusal::arguments("too many heads");
  return std::nullopt;
}

// The same for kernels that take one range of keys, all of them, without masks.
inline std::optional<Refusal> why_not_eight_bits(const AttentionArgs& a) {
  if (auto why = why_not_rounded(a)) return why;
  if (auto why = why_not_masked(a)) return why;
  return why_not_whole(a);
}

// Why 8 bits would be slower than 16: of any kernel, and of those whose rows have 128 channels.
inline std::optional<Refusal> why_slower_of_few(const AttentionArgs& a) {
  if (all_keys(a) < kLeastKeys8 && !a.eight_bits_of_few)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys8));
  return std::nullopt;
}
inline std::optional<Refusal> why_slower_in_eight_bits(const AttentionArgs& a) {
  if (auto why = why_slower_of_few(a)) return why;
  if (a.q.dims[3] <= 64) return Refusal::slower("half of the channels would be zeros");
  return std::nullopt;
}

}  // namespace tachy::ops::flash
