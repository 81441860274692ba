// Statistics need all of x before the first result, so x is read twice. Three kernels:
//   partial   a thread keeps one pack of channels and goes down a slab of positions; the slab's sums of x − s
//             and (x − s)² go to scratch [N, slabs, C], where s is the channel's value at position 0, so that
//             a large mean costs no digits
//   finish    one block per group: channels and slabs become mean and 1/sqrt(var + eps), in float64
//   apply     the same from the slabs' ends to their beginnings: what was read last is still in
//             the second-level cache
#include "cuda/row_norm.h"
#include "ops/activation_dispatch.cuh"
#include "ops/group_norm/group_norm.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kAhead = 4;

template <class T>
struct Params {
  const T* x;
  T* y;
  const float *weight, *bias;
  float2* partial;  // [N, slabs, C]
  float2* stats;    // [N, G]: mean, factor
  int64_t positions;
  int c, packs, groups, slab;  // slab: number of positions in one
  float eps;
};

template <class T, int N>
__global__ void __launch_bounds__(256) group_norm_partial_kernel(const Params<T> p) {
  extern __shared__ float2 sums[];  // [blockDim.y][blockDim.x][N]
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const T* x = p.x + blockIdx.z * p.positions * p.c;
  float2* mine = sums + (threadIdx.y * blockDim.x + threadIdx.x) * N;
  if (at < p.packs) {
    const auto first = load<T, N>(x + at * N);
    float shift[N], sum[N], squares[N];
#pragma unroll
    for (int i = 0; i < N; ++i) shift[i] = first.get(i), sum[i] = 0, squares[i] = 0;
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * p.slab;
    const int64_t end = begin + p.slab < p.positions ? begin + p.slab : p.positions;
    const int step = blockDim.y;
    for (int64_t r = begin + threadIdx.y; r < end; r += kAhead * step) {
      Pack<T, N> v[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (r + k * step < end) v[k] = load<T, N>(x + (r + k * step) * p.c + at * N);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (r + k * step >= end) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float d = v[k].get(i) - shift[i];
          sum[i] += d, squares[i] = fmaf(d, d, squares[i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) mine[i] = make_float2(sum[i], squares[i]);
  }
  __syncthreads();
  if (threadIdx.y > 0 || at >= p.packs) return;
  float2* out = p.partial + (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * p.c + at * N;
  for (int i = 0; i < N; ++i) {
    float2 total = mine[i];
    for (int row = 1; row < blockDim.y; ++row) {
      const float2 other = sums[(row * blockDim.x + threadIdx.x) * N + i];
      total.x += other.x, total.y += other.y;
    }
    out[i] = total;
  }
}

__device__ __forceinline__ double block_sum_double(double v, double* scratch) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) total += scratch[w];
  __syncthreads();
  return total;
}

// There are blockDim.x threads: thread t sums the slabs t / lanes … of channel t % lanes of the group, so a
// warp reads neighbouring channels.
template <class T>
__global__ void __launch_bounds__(128) group_norm_finish_kernel(const Params<T> p, const int slabs) {
  __shared__ double scratch[4];
  const int group = blockIdx.x, sample = blockIdx.y, width = p.c / p.groups;
  const T* x = p.x + sample * p.positions * p.c + group * width;
  const float2* partial = p.partial + static_cast<int64_t>(sample) * slabs * p.c + group * width;
  const double count = static_cast<double>(p.positions);
  // Σ over the group's values of x − x₀ and of its square, where x₀ is the group's first value.
  const double origin = as_float(x[0]);
  double sum = 0, squares = 0;
  for (int64_t i = threadIdx.x; i < static_cast<int64_t>(slabs) * width; i += blockDim.x) {
    const int64_t slab = i / width;
    const int channel = static_cast<int>(i % width);
    const float2 part = partial[slab * p.c + channel];
    const int64_t left = p.positions - slab * p.slab;
    const double n = static_cast<double>(left < p.slab ? left : p.slab);
    const double away = as_float(x[channel]) - origin;  // the partial sums' own shift
    sum += part.x + n * away;
    squares += part.y + 2 * away * part.x + n * away * away;
  }
  sum = block_sum_double(sum, scratch);
  squares = block_sum_double(squares, scratch);
  if (threadIdx.x > 0) return;
  const double values = count * width, mean = sum / values;
  const double variance = squares / values - mean * mean;
  p.stats[sample * p.groups + group] = make_float2(
      static_cast<float>(origin + mean),
      static_cast<float>(1.0 / sqrt((variance > 0 || variance != variance ? variance : 0.0) + p.eps)));
}

template <class T, int N, Act kAct>
__global__ void __launch_bounds__(256) group_norm_apply_kernel(const Params<T> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.packs) return;
  const int64_t sample = gridDim.z - 1 - blockIdx.z;
  const T* x = p.x + sample * p.positions * p.c + at * N;
  T* y = p.y + sample * p.positions * p.c + at * N;
  float mean[N], factor[N], bias[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int channel = at * N + i;
    const float2 stats = p.stats[sample * p.groups + channel / (p.c / p.groups)];
    mean[i] = stats.x, factor[i] = stats.y * (p.weight ? p.weight[channel] : 1.0f);
    bias[i] = p.bias ? p.bias[channel] : 0.0f;
  }
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * p.slab;
  const int64_t end = begin + p.slab < p.positions ? begin + p.slab : p.positions;
  const int step = blockDim.y;
  for (int64_t r = end - 1 - threadIdx.y; r >= begin; r -= kAhead * step) {
    Pack<T, N> in[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (r - k * step >= begin) in[k] = load<T, N>(x + (r - k * step) * p.c);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (r - k * step < begin) continue;
      float v[N];
#pragma unroll
      for (int i = 0; i < N; ++i)
        v[i] = activate<sizeof(T) == 2>(fmaf(in[k].get(i) - mean[i], factor[i], bias[i]), kAct);
      store(y + (r - k * step) * p.c, v, true);
    }
  }
}

template <class T, int N>
void run(const GroupNormArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  Params<T> p{static_cast<const T*>(a.x.data), static_cast<T*>(a.y.data), cuda::data_of<float>(a.weight),
              cuda::data_of<float>(a.bias)};
  const int64_t samples = a.x.dims[0];
  p.positions = a.x.dims[1], p.c = static_cast<int>(a.x.dims[2]);
  p.packs = p.c / N, p.groups = a.groups, p.eps = a.eps;
  const auto across = static_cast<int>(std::clamp<int64_t>(p.packs, 1, 256)),
             down = std::max(1, 256 / across);
  const unsigned columns = cuda::blocks_for(p.packs, across);
  // There are about four blocks per multiprocessor, all running at once. The number of slabs depends only on
  // shape and GPU, not on the alignment, which a measure run does not know.
  const int64_t wide = std::max<int64_t>(1, p.c / 2048), rows = std::max<int64_t>(1, 2048 / p.c) * kAhead;
  const int64_t wanted =
      int64_t{stream.gpu->info().multiprocessors} * 4 / (wide * std::max<int64_t>(1, samples));
  const int64_t least = std::max<int64_t>(1, (p.positions + 65534) / 65535),
                most = (p.positions + rows - 1) / rows;
  const int64_t pieces = std::max(std::min(wanted, most), least);
  p.slab = static_cast<int>(std::max<int64_t>(1, (p.positions + pieces - 1) / pieces));
  const auto slabs = static_cast<int>((p.positions + p.slab - 1) / p.slab);
  const ArenaScope scope(*stream.arena);
  p.partial = static_cast<float2*>(stream.arena->bytes(sizeof(float2) * samples * slabs * p.c));
  p.stats = static_cast<float2*>(stream.arena->bytes(sizeof(float2) * samples * p.groups));
  if (stream.measuring()) return;
  const dim3 grid(columns, static_cast<unsigned>(slabs), static_cast<unsigned>(samples));
  const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(down));
  const size_t shared = sizeof(float2) * static_cast<size_t>(across * down) * N;
  cuda::launch("group_norm", group_norm_partial_kernel<T, N>, {grid, block, shared}, stream, p);
  cuda::launch("group_norm", group_norm_finish_kernel<T>,
               {dim3(static_cast<unsigned>(p.groups), static_cast<unsigned>(samples)), 128}, stream, p,
               slabs);
  const auto with = [&]<Act kAct>() {
    cuda::launch("group_norm", group_norm_apply_kernel<T, N, kAct>, {grid, block}, stream, p);
  };
  dispatch_act(a.act, with);
}

}  // namespace

void group_norm_cuda(const GroupNormArgs& a, Stream& stream) {
  cuda::dispatch_float("group_norm", a.x.dtype, [&]<class T>() {
    if (cuda::fits_packs(kPack<T>, {&a.x, &a.y}))
      run<T, kPack<T>>(a, stream);
    else
      run<T, 1>(a, stream);
  });
}

}  // namespace tachy::ops
