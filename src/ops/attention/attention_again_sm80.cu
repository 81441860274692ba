// Computes blocks of queries again by flash_sm80.cuh (flash_again.cuh).
#include "ops/attention/flash_again.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kAgainWarps = 4, kAgainKeys = 64, kAgainRows = kAgainWarps * 32, kBlocksAtOnce = 2;

// Takes, one after the other, the block's share of all blocks of kAgainRows queries that have a noted row. Launching a
// block for each of them would take 4 % of the time of a short attention, since nearly always nothing is noted.
__device__ __forceinline__ void for_noted(const flash::Again& again, int heads, int blocks, auto&& take) {
  __shared__ uint32_t found[kAgainWarps];
  const int64_t all = int64_t{heads} * blocks, step = gridDim.x;
  const auto* notes = reinterpret_cast<const uint32_t*>(again.bad);
  for (int64_t first = blockIdx.x; first < all; first += kAgainRows * step) {
    const int64_t mine = first + threadIdx.x * step;
    const bool noted =
        mine < all && notes[mine / blocks * (again.tiles * again.warps / kAgainWarps) + mine % blocks] != 0;
    const uint32_t in_warp = __ballot_sync(~0u, noted);
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = in_warp;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < kAgainRows; ++i) {
      const uint32_t rest = found[i / 32] >> i % 32;
      if (rest == 0) i |= 31;  // no more in this warp
      if ((rest & 1) == 0) continue;
      const int64_t one = first + i * step;
      take(static_cast<int>(one / blocks), static_cast<int>(one % blocks));
      __syncthreads();  // before the next one overwrites shared memory
    }
    __syncthreads();
  }
}

static_assert(kAgainWarps == sizeof(uint32_t) && kAgainRows == BlockLists::kTokens);
// With kListed a block of kAgainRows queries is one that has a list of key blocks.
template <bool kListed>
__global__ void __launch_bounds__(kAgainRows, kBlocksAtOnce)
    attention_again(const flash::Params p, int heads, int all_heads, int blocks, const flash::Again again,
                    const flash::Lists lists) {
  extern __shared__ __align__(1024) char shared[];
  for_noted(again, all_heads, blocks, [&](int bh, int block) {
    flash::Listed listed{};
    if constexpr (kListed) listed = flash::listed_for(lists, bh / heads, bh % heads, block);
    const bool keyless = kListed && listed.count == 0;
    if (again.count && threadIdx.x == 0 && !keyless) atomicAdd(again.count, kAgainRows / 16ull);
    flash::attend<__nv_bfloat16, 128, kAgainWarps, kAgainKeys, flash::Bias::none, kListed>(
        p, bh / heads, bh % heads, block * kAgainRows, shared, listed);
  });
}

// The same over several ranges of keys.
__global__ void __launch_bounds__(kAgainRows, kBlocksAtOnce)
    attention_ranges_again(const flash::Params p, int heads, int all_heads, int blocks,
                           const flash::Again again, const __grid_constant__ flash::KeyList list) {
  extern __shared__ __align__(1024) char shared[];
  for_noted(again, all_heads, blocks, [&](int bh, int block) {
    if (again.count && threadIdx.x == 0) atomicAdd(again.count, kAgainRows / 16ull);
    flash::attend_ranges<__nv_bfloat16, 128, kAgainWarps, kAgainKeys>(p, list, bh / heads, bh % heads,
                                                                      block * kAgainRows, shared);
  });
}

}  // namespace

void flash::compute_again(const AttentionArgs& a, const Again& again, Stream& stream) {
  const int heads = static_cast<int>(a.q.dims[2]), all_heads = static_cast<int>(a.q.dims[0]) * heads;
  const int blocks = static_cast<int>(cuda::blocks_for(a.q.dims[1], kAgainRows));
  const int64_t places = int64_t{kBlocksAtOnce} * stream.gpu->info().multiprocessors;
  const cuda::LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(std::min(places, int64_t{all_heads} * blocks))),
      .block = dim3(kAgainRows),
      .shared_bytes = shared_bytes<kAgainWarps, kAgainKeys, 128>()};
  if (!a.whole() || why_not_masked(a))
    return cuda::launch("attention (in bf16 again)", attention_ranges_again, shape, stream, params_of(a),
                        heads, all_heads, blocks, again, key_list(a));
  cuda::launch("attention (in bf16 again)",
               a.blocks.defined() ? attention_again<true> : attention_again<false>, shape, stream,
               params_of(a), heads, all_heads, blocks, again, lists_of(a));
}

}  // namespace tachy::ops
