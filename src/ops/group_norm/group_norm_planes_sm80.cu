// GroupNorm of channels-first activations [N, C, P], whose groups are runs of C/G · P neighbouring values.
// There are two kernels:
//   partial   each piece of a run gives the sums of x − s and (x − s)², where s is about the mean of its
//             first values, so that a large mean costs no digits
//   apply     a block merges the pieces of its run, in float64 and in order (Chan, Golub and LeVeque's rule),
//             and writes its own, from its end to its beginning: what was read last is still in the
//             second-level cache
// x is read twice and y written once, which is the minimum if x does not fit into the cache.
#include "cuda/row_norm.h"
#include "device/reduce.cuh"
#include "ops/activation_dispatch.cuh"
#include "ops/group_norm/group_norm_impl.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kThreads = 256, kAhead = 4, kMostPieces = 64;

template <class T>
struct Planes {
  const T* x;
  T* y;
  const float *weight, *bias;
  float4* partial;     // [runs, pieces]: s, Σ(x − s), Σ(x − s)²
  int64_t run, piece;  // values of a run, and of a piece of it
  int64_t positions;   // values of a channel
  int groups, width;   // width: channels of a group
  float eps;
  bool streaming;
};

// Takes packs of N values that lie in one channel, because N divides the positions. grid [runs, pieces].
template <class T, int N>
__global__ void __launch_bounds__(kThreads) group_norm_planes_partial_kernel(const Planes<T> p) {
  __shared__ float scratch[33];
  const T* x = p.x + blockIdx.x * p.run;
  const int64_t begin = blockIdx.y * p.piece, end = begin + p.piece < p.run ? begin + p.piece : p.run;
  // The mean of the first values of a piece stands for that of all.
  float near = 0;
  const int64_t first = begin + threadIdx.x * N;
  const int64_t known = end - begin < kThreads * N ? end - begin : kThreads * N;
  if (first < end) {
    const auto v = load<T, N>(x + first);
#pragma unroll
    for (int j = 0; j < N; ++j) near += v.get(j);
  }
  const float shift = block_sum(near, scratch) / static_cast<float>(known);
  float sum = 0, squares = 0;
  for (int64_t i = begin + threadIdx.x * N; i < end; i += kAhead * kThreads * N) {
    Pack<T, N> v[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * kThreads * N < end) v[k] = load<T, N>(x + i + k * kThreads * N);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k * kThreads * N >= end) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = v[k].get(j) - shift;
        sum += d, squares = fmaf(d, d, squares);
      }
    }
  }
  sum = block_sum(sum, scratch);
  squares = block_sum(squares, scratch);
  if (threadIdx.x == 0)
    p.partial[static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y] =
        make_float4(shift, sum, squares, 0);
}

template <class T, int N, Act kAct>
__global__ void __launch_bounds__(kThreads) group_norm_planes_apply_kernel(const Planes<T> p) {
  __shared__ float stats[2];
  const int64_t run = blockIdx.x;
  const T* x = p.x + run * p.run;
  T* y = p.y + run * p.run;
  if (threadIdx.x == 0) {
    double count = 0, mean = 0, squares = 0;
    for (int i = 0; i < gridDim.y; ++i) {
      const float4 part = p.partial[run * gridDim.y + i];
      const int64_t left = p.run - i * p.piece;
      const double n = static_cast<double>(left < p.piece ? left : p.piece), sum = part.y;
      const double away = part.x + sum / n - mean;
      squares += part.z - sum * sum / n + away * away * count * n / (count + n);
      mean += away * n / (count + n);
      count += n;
    }
    const double variance = squares / count;
    stats[0] = static_cast<float>(mean);
    stats[1] =
        static_cast<float>(1.0 / sqrt((variance > 0 || variance != variance ? variance : 0.0) + p.eps));
  }
  __syncthreads();
  const float mean = stats[0], factor = stats[1];
  const int first_channel = static_cast<int>(run % p.groups) * p.width;
  const int64_t begin = blockIdx.y * p.piece, end = begin + p.piece < p.run ? begin + p.piece : p.run;
  const int64_t packs = (end - begin) / N;
  for (int64_t at = packs - 1 - threadIdx.x; at >= 0; at -= kAhead * kThreads) {
    Pack<T, N> in[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (at >= k * kThreads) in[k] = load<T, N>(x + begin + (at - k * kThreads) * N);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (at < k * kThreads) continue;
      const int64_t place = begin + (at - k * kThreads) * N;
      const int channel = first_channel + static_cast<int>(place / p.positions);
      const float scale = p.weight ? factor * __ldg(p.weight + channel) : factor;
      const float bias = p.bias ? __ldg(p.bias + channel) : 0.0f;
      float v[N];
#pragma unroll
      for (int j = 0; j < N; ++j)
        v[j] = activate<sizeof(T) == 2>(fmaf(in[k].get(j) - mean, scale, bias), kAct);
      store(y + place, v, p.streaming);
    }
  }
}

template <class T, int N>
void run_planes(const GroupNormArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  const int64_t channels = a.x.dims[1], runs = a.x.dims[0] * a.groups;
  Planes<T> p{.x = static_cast<const T*>(a.x.data),
              .y = static_cast<T*>(a.y.data),
              .weight = cuda::data_of<float>(a.weight),
              .bias = cuda::data_of<float>(a.bias)};
  p.groups = a.groups, p.width = static_cast<int>(channels / a.groups), p.positions = a.x.dims[2];
  p.run = p.width * p.positions, p.eps = a.eps;
  p.streaming = cuda::streams(stream, a.x.numel() * 2 * static_cast<int64_t>(sizeof(T)));
  // There are about four blocks per multiprocessor. The pieces, and so the sums, depend only on shape and
  // GPU.
  constexpr int64_t kUnit = int64_t{kThreads} * 8;
  const int64_t wanted = int64_t{stream.gpu->info().multiprocessors} * 4 / std::max<int64_t>(1, runs);
  const int64_t pieces = std::clamp<int64_t>(wanted, 1, std::clamp<int64_t>(p.run / kUnit, 1, kMostPieces));
  p.piece = ((p.run + pieces - 1) / pieces + kUnit - 1) / kUnit * kUnit;
  const int64_t there = std::max<int64_t>(1, (p.run + p.piece - 1) / p.piece);
  const ArenaScope scope(*stream.arena);
  p.partial = static_cast<float4*>(stream.arena->bytes(sizeof(float4) * static_cast<size_t>(runs * there)));
  if (stream.measuring()) return;
  const cuda::LaunchShape shape{dim3(static_cast<unsigned>(runs), static_cast<unsigned>(there)),
                                dim3(kThreads)};
  cuda::launch("group_norm (planes)", group_norm_planes_partial_kernel<T, N>, shape, stream, p);
  dispatch_act(a.act, [&]<Act kAct>() {
    cuda::launch("group_norm (planes)", group_norm_planes_apply_kernel<T, N, kAct>, shape, stream, p);
  });
}

}  // namespace

std::optional<Refusal> group_norm_why_not_planes(const GroupNormArgs& a, const Stream&) {
  if (!a.channels_first) return Refusal::arguments("channels last");
  return std::nullopt;
}

void group_norm_cuda_planes(const GroupNormArgs& a, Stream& stream) {
  cuda::dispatch_float("group_norm", a.x.dtype, [&]<class T>() {
    constexpr int kValues = kPack<T>;
    const bool fits = a.x.dims[2] % kValues == 0 && reinterpret_cast<uintptr_t>(a.x.data) % 16 == 0 &&
                      reinterpret_cast<uintptr_t>(a.y.data) % 16 == 0;
    fits ? run_planes<T, kValues>(a, stream) : run_planes<T, 1>(a, stream);
  });
}

}  // namespace tachy::ops
