// A block takes a row of tokens. The rows of the video that belong to it (C·pt·ph of them, with W values
// each) pass through shared memory, so that both sides are read and written in order. If rows are too long
// for that, there is one thread per value, in the order in which values are written.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/patchify/patchify.h"

namespace tachy::ops {
namespace {

using namespace device;

struct Shape {
  int64_t values;
  int c, t, h, w, pt, ph, pw;
  const int32_t* place;  // may be null
};

// The place of patch l of a video among its tokens.
__device__ __forceinline__ int64_t place_of(const Shape& s, int64_t l) {
  if (!s.place) return l;
  const int64_t most = static_cast<int64_t>(s.t / s.pt) * (s.h / s.ph) * (s.w / s.pw) - 1;
  return min(max(static_cast<int64_t>(s.place[l]), int64_t{0}), most);
}

// The index, among all videos' tokens, of the patch of video b in frame t, row h and column w of patches.
__device__ __forceinline__ int64_t token_of(const Shape& s, int64_t b, int t, int h, int w) {
  const int64_t down = s.h / s.ph, across = s.w / s.pw;
  return b * (s.t / s.pt) * down * across + place_of(s, (t * down + h) * across + w);
}

// The row of patches with index blockIdx.x: its first patch, where the values of its patch `i` begin among
// the tokens, and where its line c·pt·ph + dt·ph + dh begins in the video.
struct Strip {
  int64_t first, b, t, h;
  __device__ __forceinline__ explicit Strip(const Shape& s) {
    const uint32_t down = s.h / s.ph, frames = s.t / s.pt, at = blockIdx.x;
    first = static_cast<int64_t>(at % (down * frames)) * (s.w / s.pw);
    h = static_cast<int64_t>(at % down) * s.ph, t = static_cast<int64_t>(at / down % frames) * s.pt;
    b = at / down / frames;
  }
  __device__ __forceinline__ int64_t token(const Shape& s, uint32_t i) const {
    const int64_t length = static_cast<int64_t>(s.t / s.pt) * (s.h / s.ph) * (s.w / s.pw);
    return (b * length + place_of(s, first + i)) * (s.c * s.pt * s.ph * s.pw);
  }
  __device__ __forceinline__ int64_t line(const Shape& s, int i) const {
    const int dh = i % s.ph, dt = i / s.ph % s.pt, c = i / s.ph / s.pt;
    return (((b * s.c + c) * s.t + t + dt) * s.h + h + dh) * s.w;
  }
};

// A warp takes a line; lines lie W + 1 apart in shared memory, so that reads and writes in either direction
// are spread over the banks.
template <class Y>
__global__ void __launch_bounds__(256) patchify_strip_kernel(const float* x, Y* y, const Shape s) {
  extern __shared__ float lines[];
  const Strip strip(s);
  const int count = s.c * s.pt * s.ph, values = count * s.pw, lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < count; i += blockDim.x / 32) {
    const float* from = x + strip.line(s, i);
    for (int w = lane; w < s.w; w += 32) lines[i * (s.w + 1) + w] = from[w];
  }
  __syncthreads();
  const uint32_t all = static_cast<uint32_t>(s.w / s.pw * values);
  for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const uint32_t token = i / values, v = i - token * values, line = v / s.pw;
    y[strip.token(s, token) + v] = from_float<Y>(lines[line * (s.w + 1) + token * s.pw + v - line * s.pw]);
  }
}

template <class X>
__global__ void __launch_bounds__(256) unpatchify_strip_kernel(const X* x, float* y, const Shape s) {
  extern __shared__ float lines[];
  const Strip strip(s);
  const int count = s.c * s.pt * s.ph, values = count * s.pw, lane = threadIdx.x % 32;
  const uint32_t all = static_cast<uint32_t>(s.w / s.pw * values);
  for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const uint32_t token = i / values, v = i - token * values, c = v % s.c, at = v / s.c;
    const uint32_t line = c * s.pt * s.ph + at / s.pw;
    lines[line * (s.w + 1) + token * s.pw + at % s.pw] = as_float(x[strip.token(s, token) + v]);
  }
  __syncthreads();
  for (int i = threadIdx.x / 32; i < count; i += blockDim.x / 32) {
    float* to = y + strip.line(s, i);
    for (int w = lane; w < s.w; w += 32) to[w] = lines[i * (s.w + 1) + w];
  }
}

// Makes tokens [B, L, (c, pt, ph, pw)] from a video [B, C, T, H, W].
template <class Y>
__global__ void __launch_bounds__(256) patchify_kernel(const float* x, Y* y, const Shape s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.values) return;
  auto rest = static_cast<uint32_t>(i);  // 32-bit divisions take a third of the time of 64-bit ones
  const auto next = [&](int extent) {
    const uint32_t at = rest % static_cast<uint32_t>(extent);
    rest /= static_cast<uint32_t>(extent);
    return static_cast<int>(at);
  };
  const int dw = next(s.pw), dh = next(s.ph), dt = next(s.pt), c = next(s.c);
  const int w = next(s.w / s.pw), h = next(s.h / s.ph), t = next(s.t / s.pt);
  const int64_t from =
      (((static_cast<int64_t>(rest) * s.c + c) * s.t + t * s.pt + dt) * s.h + h * s.ph + dh) * s.w +
      w * s.pw + dw;
  const int patch = ((c * s.pt + dt) * s.ph + dh) * s.pw + dw;
  y[token_of(s, rest, t, h, w) * (s.c * s.pt * s.ph * s.pw) + patch] = from_float<Y>(x[from]);
}

// Makes a video from tokens [B, L, (pt, ph, pw, c)].
template <class X>
__global__ void __launch_bounds__(256) unpatchify_kernel(const X* x, float* y, const Shape s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.values) return;
  auto rest = static_cast<uint32_t>(i);  // 32-bit divisions take a third of the time of 64-bit ones
  const auto next = [&](int extent) {
    const uint32_t at = rest % static_cast<uint32_t>(extent);
    rest /= static_cast<uint32_t>(extent);
    return static_cast<int>(at);
  };
  const int w = next(s.w), h = next(s.h), t = next(s.t), c = next(s.c);
  const int64_t token = token_of(s, rest, t / s.pt, h / s.ph, w / s.pw);
  const int patch = (t % s.pt * s.ph + h % s.ph) * s.pw + w % s.pw;
  y[i] = as_float(x[(token * s.pt * s.ph * s.pw + patch) * s.c + c]);
}

Shape shape_of(const Tensor& video, int64_t pt, int64_t ph, int64_t pw, const Tensor& place) {
  const auto dim = [&](int i) { return static_cast<int>(video.dims[i]); };
  require(video.numel() < (int64_t{1} << 32), "patchify: expected fewer than 2^32 values, got {}",
          video.numel());
  return {video.numel(),
          dim(1),
          dim(2),
          dim(3),
          dim(4),
          static_cast<int>(pt),
          static_cast<int>(ph),
          static_cast<int>(pw),
          static_cast<const int32_t*>(place.data)};
}

// Blocks and shared memory of the strip kernels; empty if a strip is too large.
cuda::LaunchShape strips_of(const Shape& s) {
  const size_t shared = sizeof(float) * static_cast<size_t>(s.c * s.pt * s.ph) * static_cast<size_t>(s.w + 1);
  if (shared > 48 * 1024) return {0, 0};
  const int64_t strips = s.values / (int64_t{s.c} * s.pt * s.ph * s.w);
  return {static_cast<unsigned>(strips), 256, shared};
}

}  // namespace

void patchify_cuda(const PatchifyArgs& a, Stream& stream) {
  const Shape shape = shape_of(a.x, a.patch_t, a.patch_h, a.patch_w, a.place);
  if (shape.values == 0) return;
  cuda::dispatch_float("patchify", a.y.dtype, [&]<class Y>() {
    if (const auto strips = strips_of(shape); strips.grid.x)
      return cuda::launch("patchify", patchify_strip_kernel<Y>, strips, stream,
                          static_cast<const float*>(a.x.data), static_cast<Y*>(a.y.data), shape);
    cuda::launch("patchify", patchify_kernel<Y>, {cuda::blocks_for(shape.values, 256), 256}, stream,
                 static_cast<const float*>(a.x.data), static_cast<Y*>(a.y.data), shape);
  });
}

void unpatchify_cuda(const UnpatchifyArgs& a, Stream& stream) {
  const Shape shape = shape_of(a.y, a.patch_t, a.patch_h, a.patch_w, a.place);
  if (shape.values == 0) return;
  cuda::dispatch_float("unpatchify", a.x.dtype, [&]<class X>() {
    if (const auto strips = strips_of(shape); strips.grid.x)
      return cuda::launch("unpatchify", unpatchify_strip_kernel<X>, strips, stream,
                          static_cast<const X*>(a.x.data), static_cast<float*>(a.y.data), shape);
    cuda::launch("unpatchify", unpatchify_kernel<X>, {cuda::blocks_for(shape.values, 256), 256}, stream,
                 static_cast<const X*>(a.x.data), static_cast<float*>(a.y.data), shape);
  });
}

}  // namespace tachy::ops
