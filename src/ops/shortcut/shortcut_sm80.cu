// One thread computes two neighbouring channels of y (or one if Co is odd), so a warp reads and writes whole
// lines of y. Its reads of x lie side by side, too, or every second one does and the rest comes from the
// cache.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/shortcut/shortcut.h"

namespace tachy::ops {
namespace {

using namespace device;

struct Shape {
  int frames, height, width, co;  // size of y
  int in_height, in_width, ci;
  int ft, fs, offset;  // averaged: frames of zeros before x; duplicated: frames left out
  int share;           // averaged: Ci·F/Co; duplicated: Co·F/Ci
  long long gap;       // values between y's frames
  long long pairs;
};

template <class T>
__device__ float averaged(const T* x, const Shape& s, int t, int i, int j, int o) {
  const int area = s.fs * s.fs, factor = s.ft * area;
  float sum = 0;
  for (int e = o * s.share; e < (o + 1) * s.share; ++e) {
    const int inner = e % factor, frame = t * s.ft - s.offset + inner / area;
    if (frame < 0) continue;
    const long long row = static_cast<long long>(frame) * s.in_height + i * s.fs + inner % area / s.fs;
    sum += as_float(x[(row * s.in_width + j * s.fs + inner % s.fs) * s.ci + e / factor]);
  }
  return sum / static_cast<float>(s.share);
}

template <class T>
__device__ float duplicated(const T* x, const Shape& s, int t, int i, int j, int o) {
  t += s.offset;
  const int phase = (t % s.ft * s.fs + i % s.fs) * s.fs + j % s.fs;
  const long long row = static_cast<long long>(t / s.ft) * s.in_height + i / s.fs;
  return as_float(x[(row * s.in_width + j / s.fs) * s.ci + (o * s.ft * s.fs * s.fs + phase) / s.share]);
}

template <class T, int kEach, bool kDuplicated>
__global__ void __launch_bounds__(256) shortcut_kernel(const T* x, T* y, const Shape s) {
  const int each_row = s.co / kEach;
  for (long long at = blockIdx.x * 256ll + threadIdx.x; at < s.pairs; at += gridDim.x * 256ll) {
    const long long position = at / each_row;
    const int o = static_cast<int>(at - position * each_row) * kEach;
    const long long row = position / s.width;
    const int j = static_cast<int>(position - row * s.width);
    const int t = static_cast<int>(row / s.height),
              i = static_cast<int>(row - static_cast<long long>(t) * s.height);
    struct alignas(kEach * sizeof(T)) Values {
      T v[kEach];
    };
    auto* to = reinterpret_cast<Values*>(y + at * kEach + t * s.gap);
    Values values = *to;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const float add = kDuplicated ? duplicated(x, s, t, i, j, o + k) : averaged(x, s, t, i, j, o + k);
      values.v[k] = from_float<T>(as_float(values.v[k]) + add);
    }
    *to = values;
  }
}

template <class T, int kEach>
void launch_with(const ShortcutArgs& a, Shape s, Stream& stream) {
  s.pairs = a.y.numel() / kEach;
  const unsigned grid = cuda::persistent_grid(stream, cuda::blocks_for(s.pairs, 256), 64);
  const auto* x = static_cast<const T*>(a.x.data);
  auto* y = static_cast<T*>(a.y.data);
  if (a.duplicated)
    cuda::launch("shortcut", shortcut_kernel<T, kEach, true>, {grid, 256}, stream, x, y, s);
  else
    cuda::launch("shortcut", shortcut_kernel<T, kEach, false>, {grid, 256}, stream, x, y, s);
}

}  // namespace

void shortcut_cuda(const ShortcutArgs& a, Stream& stream) {
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  const int64_t ft = a.time_factor, factor = ft * a.space_factor * a.space_factor;
  const int64_t ci = a.x.dims[3], co = a.y.dims[3];
  require(ci * factor < (int64_t{1} << 30) && co * factor < (int64_t{1} << 30),
          "shortcut: {} and {} channels with a factor of {} are too many", ci, co, factor);
  const Shape s{.frames = narrow(a.y.dims[0]),
                .height = narrow(a.y.dims[1]),
                .width = narrow(a.y.dims[2]),
                .co = narrow(co),
                .in_height = narrow(a.x.dims[1]),
                .in_width = narrow(a.x.dims[2]),
                .ci = narrow(ci),
                .ft = narrow(ft),
                .fs = narrow(a.space_factor),
                .offset = narrow(a.duplicated ? a.dropped : (ft - a.x.dims[0] % ft) % ft),
                .share = narrow(a.duplicated ? co * factor / ci : ci * factor / co),
                .gap = a.y.strides[0] - a.y.dims[1] * a.y.dims[2] * co,
                .pairs = 0};
  cuda::dispatch_float("shortcut", a.x.dtype, [&]<class T>() {
    if (co % 2 == 0 && reinterpret_cast<uintptr_t>(a.y.data) % (2 * sizeof(T)) == 0)
      launch_with<T, 2>(a, s, stream);
    else
      launch_with<T, 1>(a, s, stream);
  });
}

}  // namespace tachy::ops
