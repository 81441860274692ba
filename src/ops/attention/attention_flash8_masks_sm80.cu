// Attention in 8 bits with causal masks, windows and key biases, by flash8_masks_sm80.cuh, for every GPU since sm_80.
// attention_flash8_sm80.cu says when.
#include "ops/attention/flash8_masks_sm80.cuh"
#include "ops/attention/flash8_run_sm80.cuh"

namespace tachy::ops {
namespace {

using Full = flash::ByteTile<64, false>;
using FullHalf = flash::ByteTile<64, true>;
using Narrow = flash::ByteTile<64, false, 12, 64>;  // head dims up to 64
using NarrowHalf = flash::ByteTile<64, true, 8, 64>;

template <class C, bool kBiased>
void run(const AttentionArgs& a, Stream& stream) {
  const int64_t batches = a.q.dims[0], pitch = flash::biases_pitch(flash::all_keys(a));
  ArenaScope scope(*stream.arena);
  float* biases = nullptr;
  if (kBiased) flash::take8(*stream.arena, biases, batches * pitch);
  flash::run8<C, flash::By::ranges>(a, stream, [&](const flash::ByteParams& p, const dim3& grid) {
    const flash::KeyList list = flash::key_list(a);
    if (kBiased)
      cuda::launch("attention (flash8_sm80, biases)", flash::join_biases8,
                   {.grid = dim3(static_cast<unsigned>(batches)), .block = dim3(1024)}, stream, list,
                   static_cast<int>(pitch), biases);
    cuda::launch("attention (flash8_sm80, masks)", flash::byte_masks_kernel<C, kBiased>,
                 {.grid = grid, .block = dim3(C::kThreads), .shared_bytes = flash::SeenKeys<C>::kSharedBytes},
                 stream, p, list, static_cast<const float*>(biases), static_cast<int>(pitch));
  });
}

template <class C>
void run(const AttentionArgs& a, Stream& stream) {
  bool biased = false;
  for (int i = 0; i < a.ranges(); ++i) biased = biased || a.range(i).key_bias.defined();
  biased ? run<C, true>(a, stream) : run<C, false>(a, stream);
}

}  // namespace

size_t attention_flash8_masks_shared(const AttentionArgs& a) {
  return a.q.dims[3] <= 64 ? flash::SeenKeys<Narrow>::kSharedBytes : flash::SeenKeys<Full>::kSharedBytes;
}

void attention_flash8_masks_sm80(const AttentionArgs& a, bool half, Stream& stream) {
  if (a.q.dims[3] <= 64)
    half ? run<NarrowHalf>(a, stream) : run<Narrow>(a, stream);
  else
    half ? run<FullHalf>(a, stream) : run<Full>(a, stream);
}

}  // namespace tachy::ops
