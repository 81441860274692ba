// Computes blocks of queries again by flash_sm80.cuh (flash_again.cuh).
#include "ops/attention/flash_again.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kAgainWarps = 4, kAgainKeys = 64, kAgainRows = kAgainWarps * 32;

// Whether a row of the block's is noted.
__device__ __forceinline__ bool is_noted(const flash::Again& again) {
  const int warp = blockIdx.y * kAgainWarps;
  const uint8_t* notes =
      again.bad + (int64_t{blockIdx.x} * again.tiles + warp / again.warps) * again.warps + warp % again.warps;
  return *reinterpret_cast<const uint32_t*>(notes) != 0;
}

// grid [B·H, blocks of kAgainRows queries]; with kListed such a block is one that has a list of key blocks.
static_assert(kAgainRows == BlockLists::kTokens);
template <bool kListed>
__global__ void __launch_bounds__(kAgainRows, 2)
    attention_again(const flash::Params p, int heads, const flash::Again again, const flash::Lists lists) {
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.x;
  if (!is_noted(again)) return;
  flash::Listed listed{};
  if constexpr (kListed) listed = flash::listed_for(lists, bh / heads, bh % heads, blockIdx.y);
  const bool keyless = kListed && listed.count == 0;
  if (again.count && threadIdx.x == 0 && !keyless) atomicAdd(again.count, kAgainRows / 16ull);
  flash::attend<__nv_bfloat16, 128, kAgainWarps, kAgainKeys, flash::Bias::none, kListed>(
      p, bh / heads, bh % heads, blockIdx.y * kAgainRows, shared, listed);
}

// The same over several ranges of keys.
__global__ void __launch_bounds__(kAgainRows, 2)
    attention_ranges_again(const flash::Params p, int heads, const flash::Again again,
                           const __grid_constant__ flash::KeyList list) {
  extern __shared__ __align__(1024) char shared[];
  if (!is_noted(again)) return;
  if (again.count && threadIdx.x == 0) atomicAdd(again.count, kAgainRows / 16ull);
  flash::attend_ranges<__nv_bfloat16, 128, kAgainWarps, kAgainKeys>(
      p, list, blockIdx.x / heads, blockIdx.x % heads, blockIdx.y * kAgainRows, shared);
}

}  // namespace

void flash::compute_again(const AttentionArgs& a, const Again& again, Stream& stream) {
  const cuda::LaunchShape shape{.grid = dim3(static_cast<unsigned>(a.q.dims[0] * a.q.dims[2]),
                                             cuda::blocks_for(a.q.dims[1], kAgainRows)),
                                .block = dim3(kAgainRows),
                                .shared_bytes = shared_bytes<kAgainWarps, kAgainKeys, 128>()};
  const int heads = static_cast<int>(a.q.dims[2]);
  if (!a.whole() || why_not_masked(a))
    return cuda::launch("attention (in bf16 again)", attention_ranges_again, shape, stream, params_of(a),
                        heads, again, key_list(a));
  cuda::launch("attention (in bf16 again)",
               a.blocks.defined() ? attention_again<true> : attention_again<false>, shape, stream,
               params_of(a), heads, again, lists_of(a));
}

}  // namespace tachy::ops
