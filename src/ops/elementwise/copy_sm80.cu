// Strided copy with a per-channel affine map, planned as in copy_cpu.cpp: neighbouring axes are merged if
// both tensors have them as one run. If x and y have stride 1 along different axes, and both axes are long,
// tiles of 32 x 32 are transposed in shared memory. Otherwise there is one thread per value, in the order of
// y, or one per pack of values if the rows of both consist of whole packs.
#include <algorithm>

#include "cuda/dispatch.h"
#include "device/vec.cuh"
#include "ops/elementwise/elementwise.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kTile = 32;

struct Axis {
  int64_t extent = 1, from = 0, to = 0;
  bool channel = false;
};

struct Walk {
  Axis axes[kMaxDims];  // outermost first
  int count = 0;
  const float *scale = nullptr, *shift = nullptr;
  int64_t values = 0;
};

Walk plan_walk(const CopyArgs& a) {
  Walk walk;
  walk.scale = a.scale.defined() ? static_cast<const float*>(a.scale.data) : nullptr;
  walk.shift = a.shift.defined() ? static_cast<const float*>(a.shift.data) : nullptr;
  walk.values = a.x.numel();
  Axis axes[kMaxDims];
  int n = 0;
  for (int i = 0; i < a.x.rank; ++i)
    if (a.x.dims[i] != 1)
      axes[n++] = {a.x.dims[i], a.x.strides[i], a.y.strides[i],
                   (walk.scale || walk.shift) && i == a.channel_axis};
  std::stable_sort(axes, axes + n, [](const Axis& p, const Axis& q) { return p.to > q.to; });
  for (int i = 0; i < n; ++i) {
    Axis* last = walk.count ? &walk.axes[walk.count - 1] : nullptr;
    const Axis& next = axes[i];
    if (last && !last->channel && !next.channel && last->from == next.from * next.extent &&
        last->to == next.to * next.extent)
      *last = {last->extent * next.extent, next.from, next.to, false};
    else
      walk.axes[walk.count++] = next;
  }
  if (walk.count == 0) walk.axes[walk.count++] = {1, 1, 1, false};
  return walk;
}

__device__ __forceinline__ float affine(const Walk& w, float v, int64_t channel) {
  if (w.scale) v = __fmul_rn(v, w.scale[channel]);
  if (w.shift) v = __fadd_rn(v, w.shift[channel]);
  return v;
}

// Copies packs of 16 bytes of the wider type; rows must be contiguous in both tensors, and nothing may depend
// on the channel.
template <class X, class Y>
bool in_packs(const Walk& w, const X* x, const Y* y) {
  constexpr int N = kPack<X, Y>;
  const Axis& inner = w.axes[w.count - 1];
  if (w.scale || w.shift || inner.from != 1 || inner.to != 1 || inner.extent % N) return false;
  for (int i = 0; i + 1 < w.count; ++i)
    if (w.axes[i].from % N || w.axes[i].to % N) return false;
  return reinterpret_cast<uintptr_t>(x) % (N * sizeof(X)) == 0 &&
         reinterpret_cast<uintptr_t>(y) % (N * sizeof(Y)) == 0;
}

template <class X, class Y, int N>
__device__ __forceinline__ void copy_pack(const X* from, Y* to) {
  const Pack<X, N> pack = load<X, N>(from);
  if constexpr (std::is_same_v<X, Y>) {
    store(to, pack);
  } else {
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = pack.get(i);
    store(to, values);
  }
}

// Copies N values at a time; if N > 1, the axes count packs.
template <class X, class Y, class Index, int N>
__global__ void __launch_bounds__(256) copy_kernel(const X* x, Y* y, const Walk w) {
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < static_cast<Index>(w.values);
       i += static_cast<Index>(gridDim.x) * blockDim.x) {
    Index rest = i;
    int64_t from = 0, to = 0, channel = 0;
    for (int axis = w.count - 1; axis >= 0; --axis) {
      const auto extent = static_cast<Index>(w.axes[axis].extent);
      const Index at = rest % extent;
      rest /= extent;
      from += at * w.axes[axis].from, to += at * w.axes[axis].to;
      if (w.axes[axis].channel) channel = at;
    }
    if constexpr (N > 1)
      copy_pack<X, Y, N>(x + from, y + to);
    else
      y[to] = from_float<Y>(affine(w, as_float(x[from]), channel));
  }
}

template <class X, class Y, int N>
void launch_copy(const X* x, Y* y, const Walk& w, Stream& stream) {
  const unsigned grid = cuda::persistent_grid(stream, cuda::blocks_for(w.values, 256), 64);
  if (w.values < (int64_t{1} << 31) - (int64_t{1} << 24))
    cuda::launch("copy", copy_kernel<X, Y, uint32_t, N>, {grid, 256}, stream, x, y, w);
  else
    cuda::launch("copy", copy_kernel<X, Y, uint64_t, N>, {grid, 256}, stream, x, y, w);
}

// y has stride 1 along `inner`, and x along `across`. blockIdx.z counts the other axes.
template <class X, class Y>
__global__ void __launch_bounds__(256) transpose_kernel(const X* x, Y* y, const Walk w, const int across) {
  __shared__ float tile[kTile][kTile + 1];
  const Axis inner = w.axes[w.count - 1], other = w.axes[across];
  int64_t rest = blockIdx.z, from = 0, to = 0, outer_channel = 0;
  for (int axis = w.count - 2; axis >= 0; --axis) {
    if (axis == across) continue;
    const int64_t at = rest % w.axes[axis].extent;
    rest /= w.axes[axis].extent;
    from += at * w.axes[axis].from, to += at * w.axes[axis].to;
    if (w.axes[axis].channel) outer_channel = at;
  }
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kTile, j0 = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int i = threadIdx.y; i < kTile; i += blockDim.y)
    if (i0 + i < inner.extent && j0 + threadIdx.x < other.extent)
      tile[i][threadIdx.x] = as_float(x[from + (i0 + i) * inner.from + j0 + threadIdx.x]);
  __syncthreads();
  for (int j = threadIdx.y; j < kTile; j += blockDim.y) {
    if (j0 + j >= other.extent || i0 + threadIdx.x >= inner.extent) continue;
    const int64_t channel = inner.channel ? i0 + threadIdx.x : other.channel ? j0 + j : outer_channel;
    y[to + (j0 + j) * other.to + i0 + threadIdx.x] = from_float<Y>(affine(w, tile[threadIdx.x][j], channel));
  }
}

template <class X, class Y>
void run(const CopyArgs& a, Stream& stream) {
  const Walk w = plan_walk(a);
  const auto* x = static_cast<const X*>(a.x.data);
  auto* y = static_cast<Y*>(a.y.data);
  const Axis& inner = w.axes[w.count - 1];
  int across = -1;
  for (int i = 0; i + 1 < w.count; ++i)
    if (w.axes[i].from == 1 && w.axes[i].extent >= 16) across = i;
  if (across >= 0 && inner.to == 1 && inner.from != 1 && inner.extent >= 16) {
    const int64_t outer = w.values / inner.extent / w.axes[across].extent;
    const dim3 grid(cuda::blocks_for(inner.extent, kTile), cuda::blocks_for(w.axes[across].extent, kTile),
                    static_cast<unsigned>(outer));
    if (outer <= 65535 && grid.y <= 65535)
      return cuda::launch("copy", transpose_kernel<X, Y>, {grid, dim3(kTile, 8)}, stream, x, y, w, across);
  }
  if (!in_packs(w, x, y)) return launch_copy<X, Y, 1>(x, y, w, stream);
  constexpr int N = kPack<X, Y>;
  Walk packs = w;
  packs.axes[w.count - 1] = {inner.extent / N, N, N, false};
  packs.values /= N;
  launch_copy<X, Y, N>(x, y, packs, stream);
}

}  // namespace

void copy_cuda(const CopyArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  cuda::dispatch_float("copy", a.x.dtype, [&]<class X>() {
    cuda::dispatch_float("copy", a.y.dtype, [&]<class Y>() { run<X, Y>(a, stream); });
  });
}

}  // namespace tachy::ops
