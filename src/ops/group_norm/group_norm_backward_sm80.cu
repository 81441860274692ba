// x is read three times and dy twice: a group's statistics need all of x, and the means in dx all of dy.
// There are six small steps over scratch [N, slabs, C] of float64 pairs, and the order of each sum depends
// only on shape and GPU. A thread adds its own values in float32; sums over threads, slabs and samples are in
// float64. When 126 such sums were added one after the other in float32, dweight was off by four units in the
// last place, where the definition in float32 happened to be off by half a unit.
//   sums      Σ (x − x₀) and Σ (x − x₀)² of each slab and channel, x₀ about the channel's mean
//   statistics  one block per group: mean and r, in float64
//   sums      Σ s and Σ s·n,  s = dy · act'(n · weight + bias)
//   means     one block per group: mean(g), mean(g·n)
//   channels  dbias = Σ s, dweight = Σ s·n over samples and slabs
//   apply     dx
// A small tensor is computed entirely in float64 (Real): in a sum of three terms nothing evens out the
// rounding of one of them (in statistics, slope, products), and the cost does not matter there.
#include "cuda/row_norm.h"
#include "ops/activation_def.h"
#include "ops/group_norm/group_norm_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kAhead = 2;
constexpr int64_t kSmall = 16384;  // a tensor with fewer values is computed in float64

template <class Real>
using Pair = std::conditional_t<std::is_same_v<Real, double>, double2, float2>;

template <class Real>
struct Params {
  const void *x, *dy;
  void* dx;
  const float *weight, *bias;
  float *dweight, *dbias;
  double2* partial;   // [N, slabs, C]
  Pair<Real>* stats;  // [N, G]: mean, r
  Pair<Real>* means;  // [N, G]: mean(g), mean(g·n)
  int64_t positions;
  int c, packs, groups, slab, slabs, samples;  // slab: number of positions in one
  float eps;
  Act act;
};

// The derivative d act / dx at x. In float64 it is the definition's.
template <bool Fast>
__device__ __forceinline__ float slope_at(float x, Act act) {
  return activate_slope<Fast>(x, act);
}
template <bool Fast>
__device__ __forceinline__ double slope_at(double x, Act act) {
  return ops::activate_slope(x, static_cast<Activation>(act));
}

// The values that a thread needs for its N channels at every position.
template <class Real, int N>
struct Channels {
  Real mean[N], r[N], weight[N], bias[N];
  __device__ Channels(const Params<Real>& p, int64_t sample, int at) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int channel = at * N + i;
      const Pair<Real> stats = p.stats[sample * p.groups + channel / (p.c / p.groups)];
      mean[i] = stats.x, r[i] = stats.y;
      weight[i] = p.weight ? p.weight[channel] : 1.0f, bias[i] = p.bias ? p.bias[channel] : 0.0f;
    }
  }
};

// Estimates the mean of a channel from its first values, so that the sum of squares is nearly that of the
// deviations.
template <class T, class Real>
__device__ float near_mean(const T* x, const Params<Real>& p) {
  const int count = p.positions < 8 ? static_cast<int>(p.positions) : 8;
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += as_float(x[static_cast<int64_t>(i) * p.c]);
  return sum / static_cast<float>(count);
}

template <class T, int N, bool kGradient, class Real>
__global__ void __launch_bounds__(256) sums_kernel(const Params<Real> p) {
  extern __shared__ __align__(16) char shared[];
  auto* sums = reinterpret_cast<Pair<Real>*>(shared);  // [blockDim.y][blockDim.x][N]
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t sample = blockIdx.z, from = sample * p.positions * p.c + at * N;
  const T *x = static_cast<const T*>(p.x) + from, *dy = static_cast<const T*>(p.dy) + from;
  Pair<Real>* mine = sums + (threadIdx.y * blockDim.x + threadIdx.x) * N;
  if (at < p.packs) {
    Pair<Real> sum[N];
    Real shift[N];
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = {0, 0}, shift[i] = kGradient ? 0.0f : near_mean(x + i, p);
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * p.slab;
    const int64_t end = begin + p.slab < p.positions ? begin + p.slab : p.positions;
    const int step = blockDim.y;
    const auto walk = [&](auto&& add) {
      for (int64_t r = begin + threadIdx.y; r < end; r += kAhead * step) {
        Pack<T, N> v[kAhead], up[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (r + k * step >= end) continue;
          v[k] = load<T, N>(x + (r + k * step) * p.c);
          if constexpr (kGradient) up[k] = load<T, N>(dy + (r + k * step) * p.c);
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (r + k * step >= end) continue;
#pragma unroll
          for (int i = 0; i < N; ++i) add(i, v[k].get(i), kGradient ? up[k].get(i) : 0.0f);
        }
      }
    };
    if constexpr (kGradient) {
      const Channels<Real, N> of(p, sample, at);
      with_act(p.act, [&](auto act) {
        walk([&](int i, Real value, Real up) {
          const Real n = (value - of.mean[i]) * of.r[i];
          const Real s = up * slope_at<false>(fma(n, of.weight[i], of.bias[i]), act.value);
          sum[i].x += s, sum[i].y = fma(s, n, sum[i].y);
        });
      });
    } else {
      walk([&](int i, Real value, Real) {
        const Real d = value - shift[i];
        sum[i].x += d, sum[i].y = fma(d, d, sum[i].y);
      });
    }
#pragma unroll
    for (int i = 0; i < N; ++i) mine[i] = sum[i];
  }
  __syncthreads();
  if (threadIdx.y > 0 || at >= p.packs) return;
  double2* out = p.partial + (sample * p.slabs + blockIdx.y) * p.c + at * N;
  for (int i = 0; i < N; ++i) {
    double2 total = make_double2(mine[i].x, mine[i].y);
    for (int row = 1; row < blockDim.y; ++row) {
      const Pair<Real> other = sums[(row * blockDim.x + threadIdx.x) * N + i];
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

// grid [G, N].
template <class T, bool kGradient, class Real>
__global__ void __launch_bounds__(128) group_kernel(const Params<Real> p) {
  __shared__ double scratch[4];
  const int group = blockIdx.x, sample = blockIdx.y, width = p.c / p.groups;
  const T* x = static_cast<const T*>(p.x) + sample * p.positions * p.c + group * width;
  const double2* partial = p.partial + static_cast<int64_t>(sample) * p.slabs * p.c + group * width;
  const double origin = kGradient ? 0.0f : near_mean(x, p), values = static_cast<double>(p.positions) * width;
  double first = 0, second = 0;
  for (int64_t i = threadIdx.x; i < static_cast<int64_t>(p.slabs) * width; i += blockDim.x) {
    const int64_t slab = i / width;
    const int channel = static_cast<int>(i % width);
    const double2 part = partial[slab * p.c + channel];
    if constexpr (kGradient) {
      const double weight = p.weight ? p.weight[group * width + channel] : 1.0f;
      first += weight * part.x, second += weight * part.y;
    } else {  // converts from the channel's own shift to the group's
      const int64_t left = p.positions - slab * p.slab;
      const double n = static_cast<double>(left < p.slab ? left : p.slab),
                   away = near_mean(x + channel, p) - origin;
      first += part.x + n * away;
      second += part.y + 2 * away * part.x + n * away * away;
    }
  }
  first = block_sum_double(first, scratch) / values;
  second = block_sum_double(second, scratch) / values;
  if (threadIdx.x > 0) return;
  const int at = sample * p.groups + group;
  if constexpr (kGradient) {
    p.means[at] = {static_cast<Real>(first), static_cast<Real>(second)};
  } else {
    const double variance = second - first * first;
    const double r = 1.0 / sqrt((variance > 0 || variance != variance ? variance : 0.0) + p.eps);
    p.stats[at] = {static_cast<Real>(origin + first), static_cast<Real>(r)};
  }
}

// A block has 32 x 32 threads for 32 channels, with 32 threads for the slabs of each.
template <class Real>
__global__ void __launch_bounds__(1024) channel_kernel(const Params<Real> p) {
  __shared__ double2 sums[32][33];
  const int j = blockIdx.x * 32 + threadIdx.x;
  double2 sum = make_double2(0, 0);
  if (j < p.c)
    for (int64_t i = threadIdx.y; i < static_cast<int64_t>(p.samples) * p.slabs; i += 32) {
      const double2 part = p.partial[i * p.c + j];
      sum.x += part.x, sum.y += part.y;
    }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || j >= p.c) return;
  for (int i = 1; i < 32; ++i) sum.x += sums[i][threadIdx.x].x, sum.y += sums[i][threadIdx.x].y;
  if (p.dweight) p.dweight[j] = static_cast<float>(sum.y);
  if (p.dbias) p.dbias[j] = static_cast<float>(sum.x);
}

// Goes through the positions backwards, because the part that was read last is still in the second-level
// cache.
template <class T, int N, class Real>
__global__ void __launch_bounds__(256) apply_kernel(const Params<Real> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.packs) return;
  const int64_t sample = gridDim.z - 1 - blockIdx.z, from = sample * p.positions * p.c + at * N;
  const T *x = static_cast<const T*>(p.x) + from, *dy = static_cast<const T*>(p.dy) + from;
  T* dx = static_cast<T*>(p.dx) + from;
  const Channels<Real, N> of(p, sample, at);
  Real mean_g[N], mean_product[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const Pair<Real> means = p.means[sample * p.groups + (at * N + i) / (p.c / p.groups)];
    mean_g[i] = means.x, mean_product[i] = means.y;
  }
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * p.slab;
  const int64_t end = begin + p.slab < p.positions ? begin + p.slab : p.positions;
  const int step = blockDim.y;
  with_act(p.act, [&](auto act) {
    for (int64_t r = end - 1 - threadIdx.y; r >= begin; r -= kAhead * step) {
      Pack<T, N> in[kAhead], up[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (r - k * step >= begin)
          in[k] = load<T, N>(x + (r - k * step) * p.c), up[k] = load<T, N>(dy + (r - k * step) * p.c);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (r - k * step < begin) continue;
        float v[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const Real n = (in[k].get(i) - of.mean[i]) * of.r[i];
          const Real s = up[k].get(i) * slope_at<sizeof(T) == 2>(fma(n, of.weight[i], of.bias[i]), act.value);
          v[i] = static_cast<float>(of.r[i] * (s * of.weight[i] - mean_g[i] - n * mean_product[i]));
        }
        store(dx + (r - k * step) * p.c, v, true);
      }
    }
  });
}

template <class T, int N, class Real>
void run(const GroupNormBackwardArgs& a, Stream& stream) {
  Params<Real> p{a.x.data,
                 a.dy.data,
                 a.dx.data,
                 cuda::data_of<float>(a.weight),
                 cuda::data_of<float>(a.bias),
                 cuda::data_of<float>(a.dweight),
                 cuda::data_of<float>(a.dbias)};
  p.samples = static_cast<int>(a.x.dims[0]), p.positions = a.x.dims[1], p.c = static_cast<int>(a.x.dims[2]);
  p.packs = p.c / N, p.groups = a.groups, p.eps = a.eps, p.act = static_cast<Act>(a.act);
  const auto across = static_cast<int>(std::clamp<int64_t>(p.packs, 1, 256)),
             down = std::max(1, 256 / across);
  const unsigned columns = cuda::blocks_for(p.packs, across);
  // There are about four blocks per multiprocessor. The number of slabs depends only on shape and GPU, not on
  // the alignment, which a measure run does not know.
  const int64_t wide = std::max<int64_t>(1, p.c / 2048), rows = std::max<int64_t>(1, 2048 / p.c) * kAhead;
  const int64_t wanted = int64_t{stream.gpu->info().multiprocessors} * 4 / (wide * p.samples);
  const int64_t least = std::max<int64_t>(1, (p.positions + 65534) / 65535),
                most = (p.positions + rows - 1) / rows;
  const int64_t pieces = std::max(std::min(wanted, most), least);
  p.slab = static_cast<int>(std::max<int64_t>(1, (p.positions + pieces - 1) / pieces));
  p.slabs = static_cast<int>((p.positions + p.slab - 1) / p.slab);
  const ArenaScope scope(*stream.arena);
  const auto pairs = [&]<class P>(P*& to, int64_t count) {
    to = static_cast<P*>(stream.arena->bytes(sizeof(P) * static_cast<size_t>(count)));
  };
  pairs(p.partial, int64_t{p.samples} * p.slabs * p.c);
  pairs(p.stats, int64_t{p.samples} * p.groups), pairs(p.means, int64_t{p.samples} * p.groups);
  if (stream.measuring()) return;
  const char* op = "group_norm_backward";
  const cuda::LaunchShape walk{
      dim3(columns, static_cast<unsigned>(p.slabs), static_cast<unsigned>(p.samples)),
      dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)),
      sizeof(Pair<Real>) * static_cast<size_t>(across * down) * N};
  const cuda::LaunchShape groups{dim3(static_cast<unsigned>(p.groups), static_cast<unsigned>(p.samples)),
                                 128};
  cuda::launch(op, sums_kernel<T, N, false, Real>, walk, stream, p);
  cuda::launch(op, group_kernel<T, false, Real>, groups, stream, p);
  cuda::launch(op, sums_kernel<T, N, true, Real>, walk, stream, p);
  cuda::launch(op, group_kernel<T, true, Real>, groups, stream, p);
  if (p.dweight || p.dbias)
    cuda::launch(op, channel_kernel<Real>, {cuda::blocks_for(p.c, 32), dim3(32, 32)}, stream, p);
  cuda::launch(op, apply_kernel<T, N, Real>, {walk.grid, walk.block}, stream, p);
}

}  // namespace

void group_norm_backward_cuda(const GroupNormBackwardArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  cuda::dispatch_float("group_norm_backward", a.x.dtype, [&]<class T>() {
    if (a.x.numel() <= kSmall)
      run<T, 1, double>(a, stream);
    else if (cuda::fits_packs(kPack<T>, {&a.x, &a.dy, &a.dx}))
      run<T, kPack<T>, float>(a, stream);
    else
      run<T, 1, float>(a, stream);
  });
}

}  // namespace tachy::ops
