// There are three kernels. The first computes the means over heads, with one warp per token, and the extremes
// of the tokens that each block has seen; the second computes the extremes of all; and the third makes the
// tables. Nothing goes to the host, so that the step can stay a graph. The shares are read once, three values
// of each head (a sector of 32 bytes each), which is 110 MB for a picture of 1024² in 21 latent frames.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/region_rope/region_rope.h"

namespace tachy::ops {
namespace {

constexpr int kRegions = RegionRopeArgs::kRegions, kSpeakers = RegionRopeArgs::kSpeakers;
constexpr int kThreads = 256, kWarps = kThreads / 32, kTokensOfBlock = 32;

struct Extremes {
  float least[kSpeakers], most[kSpeakers];
};

__device__ __forceinline__ void add(Extremes& to, const Extremes& other) {
#pragma unroll
  for (int m = 0; m < kSpeakers; ++m) {
    to.least[m] = fminf(to.least[m], other.least[m]);
    to.most[m] = fmaxf(to.most[m], other.most[m]);
  }
}

__device__ __forceinline__ Extremes nothing() {
  Extremes out;
#pragma unroll
  for (int m = 0; m < kSpeakers; ++m) out.least[m] = INFINITY, out.most[m] = -INFINITY;
  return out;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    region_rope_means_kernel(const T* shares, int64_t token_stride, int64_t head_stride, const float* sizes,
                             float* means, Extremes* seen, int64_t tokens, int heads) {
  __shared__ Extremes of_warp[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Extremes mine = nothing();
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * kWarps + warp; t < tokens;
       t += static_cast<int64_t>(gridDim.x) * kWarps) {
    float sums[kRegions] = {};
    for (int h = lane; h < heads; h += 32)
#pragma unroll
      for (int m = 0; m < kRegions; ++m)
        sums[m] += device::as_float(shares[t * token_stride + h * head_stride + m]);
#pragma unroll
    for (int m = 0; m < kRegions; ++m) {
#pragma unroll
      for (int offset = 16; offset; offset >>= 1) sums[m] += __shfl_xor_sync(0xffffffffu, sums[m], offset);
      const float size = sizes[m], mean = size > 0 ? sums[m] / (static_cast<float>(heads) * size) : 0.0f;
      if (m < kSpeakers) mine.least[m] = fminf(mine.least[m], mean), mine.most[m] = fmaxf(mine.most[m], mean);
      if (lane == 0) means[t * kRegions + m] = mean;
    }
  }
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < kWarps; ++w) add(mine, of_warp[w]);
  seen[blockIdx.x] = mine;
}

// One warp writes the extremes of all blocks to the place after theirs.
__global__ void __launch_bounds__(32) region_rope_extremes_kernel(Extremes* seen, int count) {
  Extremes mine = nothing();
  for (int i = threadIdx.x; i < count; i += 32) add(mine, seen[i]);
#pragma unroll
  for (int offset = 16; offset; offset >>= 1)
#pragma unroll
    for (int m = 0; m < kSpeakers; ++m) {
      mine.least[m] = fminf(mine.least[m], __shfl_xor_sync(0xffffffffu, mine.least[m], offset));
      mine.most[m] = fmaxf(mine.most[m], __shfl_xor_sync(0xffffffffu, mine.most[m], offset));
    }
  if (threadIdx.x == 0) seen[count] = mine;
}

__device__ __forceinline__ float place(const float* mean, const Extremes& all) {
  if (mean[2] > fmaxf(mean[0], mean[1])) return RegionRopeArgs::kBackground;
  const bool second = mean[1] > mean[0];
  const float least = second ? all.least[1] : all.least[0], most = second ? all.most[1] : all.most[0];
  const float part = (mean[second] - least) / (most - least + RegionRopeArgs::kEpsilon);
  return (second ? 20.0f : 0.0f) + RegionRopeArgs::kSpan * part;
}
static_assert(RegionRopeArgs::kLow[0] == 0 && RegionRopeArgs::kLow[1] == 20);

__global__ void __launch_bounds__(kThreads)
    region_rope_tables_kernel(const float* means, const Extremes* all, float* cos, float* sin, int64_t tokens,
                              int pairs) {
  extern __shared__ float frequencies[];
  for (int i = threadIdx.x; i < pairs; i += kThreads)
    frequencies[i] = static_cast<float>(pow(RegionRopeArgs::kTheta, -static_cast<double>(i) / pairs));
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTokensOfBlock;
  const int count = static_cast<int>(min(static_cast<int64_t>(kTokensOfBlock), tokens - first)) * pairs;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const int64_t t = first + i / pairs;
    float s, c;
    sincosf(place(means + t * kRegions, *all) * frequencies[i % pairs], &s, &c);
    cos[t * pairs + i % pairs] = c, sin[t * pairs + i % pairs] = s;
  }
}

}  // namespace

void region_rope_cuda(const RegionRopeArgs& a, Stream& stream) {
  const int64_t tokens = a.shares.dims[0];
  const auto heads = static_cast<int>(a.shares.dims[1]), pairs = static_cast<int>(a.cos.dims[1]);
  const auto blocks = static_cast<int>(std::min(cuda::blocks_for(tokens, kWarps), 1024u));
  const ArenaScope scope(*stream.arena);
  auto* means =
      static_cast<float*>(stream.arena->bytes(sizeof(float) * kRegions * static_cast<size_t>(tokens)));
  auto* seen =
      static_cast<Extremes*>(stream.arena->bytes(sizeof(Extremes) * static_cast<size_t>(blocks + 1)));
  if (stream.measuring() || tokens == 0) return;
  cuda::dispatch_float("region_rope", a.shares.dtype, [&]<class T>() {
    cuda::launch("region_rope", region_rope_means_kernel<T>, {dim3(static_cast<unsigned>(blocks)), kThreads},
                 stream, static_cast<const T*>(a.shares.data), a.shares.strides[0], a.shares.strides[1],
                 static_cast<const float*>(a.sizes.data), means, seen, tokens, heads);
  });
  cuda::launch("region_rope", region_rope_extremes_kernel, {dim3(1), 32}, stream, seen, blocks);
  cuda::launch(
      "region_rope", region_rope_tables_kernel,
      {dim3(cuda::blocks_for(tokens, kTokensOfBlock)), kThreads, sizeof(float) * static_cast<size_t>(pairs)},
      stream, means, seen + blocks, static_cast<float*>(a.cos.data), static_cast<float*>(a.sin.data), tokens,
      pairs);
}

}  // namespace tachy::ops
