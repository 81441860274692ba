// Latents are a few MB: one thread a value, in the order of what is written.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/patchify/patchify.h"

namespace tachy::ops {
namespace {

using namespace device;

struct Shape {
  int64_t values;
  int c, t, h, w, pt, ph, pw;
};

// Tokens [B, L, (c, pt, ph, pw)] from video [B, C, T, H, W].
template <class Y>
__global__ void __launch_bounds__(256) patchify_kernel(const float* x, Y* y, const Shape s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.values) return;
  auto rest = static_cast<uint32_t>(i);  // 32-bit divisions are a third of the 64-bit ones
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
  y[i] = from_float<Y>(x[from]);
}

// Video from tokens [B, L, (pt, ph, pw, c)].
template <class X>
__global__ void __launch_bounds__(256) unpatchify_kernel(const X* x, float* y, const Shape s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.values) return;
  auto rest = static_cast<uint32_t>(i);  // 32-bit divisions are a third of the 64-bit ones
  const auto next = [&](int extent) {
    const uint32_t at = rest % static_cast<uint32_t>(extent);
    rest /= static_cast<uint32_t>(extent);
    return static_cast<int>(at);
  };
  const int w = next(s.w), h = next(s.h), t = next(s.t), c = next(s.c);
  const int64_t token =
      ((rest * (s.t / s.pt) + t / s.pt) * (s.h / s.ph) + h / s.ph) * (s.w / s.pw) + w / s.pw;
  const int patch = (t % s.pt * s.ph + h % s.ph) * s.pw + w % s.pw;
  y[i] = as_float(x[(token * s.pt * s.ph * s.pw + patch) * s.c + c]);
}

Shape shape_of(const Tensor& video, int64_t pt, int64_t ph, int64_t pw) {
  const auto dim = [&](int i) { return static_cast<int>(video.dims[i]); };
  require(video.numel() < (int64_t{1} << 32), "patchify: expected fewer than 2^32 values, got {}",
          video.numel());
  return {video.numel(),       dim(1), dim(2), dim(3), dim(4), static_cast<int>(pt), static_cast<int>(ph),
          static_cast<int>(pw)};
}

}  // namespace

void patchify_cuda(const PatchifyArgs& a, Stream& stream) {
  const Shape shape = shape_of(a.x, a.patch_t, a.patch_h, a.patch_w);
  if (shape.values == 0) return;
  cuda::dispatch_float("patchify", a.y.dtype, [&]<class Y>() {
    cuda::launch("patchify", patchify_kernel<Y>, {cuda::blocks_for(shape.values, 256), 256}, stream,
                 static_cast<const float*>(a.x.data), static_cast<Y*>(a.y.data), shape);
  });
}

void unpatchify_cuda(const UnpatchifyArgs& a, Stream& stream) {
  const Shape shape = shape_of(a.y, a.patch_t, a.patch_h, a.patch_w);
  if (shape.values == 0) return;
  cuda::dispatch_float("unpatchify", a.x.dtype, [&]<class X>() {
    cuda::launch("unpatchify", unpatchify_kernel<X>, {cuda::blocks_for(shape.values, 256), 256}, stream,
                 static_cast<const X*>(a.x.data), static_cast<float*>(a.y.data), shape);
  });
}

}  // namespace tachy::ops
