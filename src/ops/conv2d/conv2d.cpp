// Checks, packing and dispatch of the 2-D convolution.
#include "ops/conv2d/conv2d.h"

#include "cpu/conv_weights.h"
#include "cpu/widen.h"
#include "cuda/conv/conv.h"
#include "ops/conv2d/conv2d_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Impl<Conv2dArgs> kTable[] = {
    gpu_impl<conv2d_sm90, conv2d_why_not_sm90>("sm90"),
    gpu_impl<conv2d_cudnn, conv2d_why_slower_cudnn>("cudnn"),
    gpu_impl<conv2d_sm80, conv2d_why_not_sm80>("sm80"),
    gpu_impl<conv2d_simple, conv2d_why_not_simple>("simple"),
    gpu_impl<conv2d_tf32, conv2d_why_not_tf32>("tf32"),  // not compared with the definition on a GPU yet
    gpu_impl<conv2d_cudnn, conv2d_why_not_cudnn>("cudnn_any"),  // for the op runner
    {"bf16", conv2d_why_not_bf16, conv2d_bf16},
    {"f32", conv2d_why_not_f32, conv2d_f32},
    {"onednn", conv2d_why_not_onednn, conv2d_onednn},
    {"ref", nullptr, conv2d_ref},
};

void expect_dense(const char* name, const Tensor& t, std::initializer_list<int64_t> shape, DType dtype) {
  expect_shape("conv2d", name, t, shape);
  expect_dtype("conv2d", name, t, dtype);
  require(t.contiguous(), "conv2d: expected a contiguous {}", name);
}

int64_t packed_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, DType dtype,
                     const Stream& stream) {
  return stream.gpu ? cuda::conv_packed_bytes(dtype, 1, co, ci, kernel_h * kernel_w)
                    : ops::packed_conv2d_bytes(co, ci, kernel_h, kernel_w, stream.precision.compute);
}

void check_args(const Conv2dArgs& a, const Stream& stream) {
  require(a.kernel_h >= 1 && a.kernel_w >= 1 && a.stride >= 1 && a.pad_top >= 0 && a.pad_left >= 0 &&
              a.pad_bottom >= 0 && a.pad_right >= 0,
          "conv2d: expected kernel and stride >= 1 and padding >= 0, got kernel {}x{}, stride {}, padding "
          "{},{},{},{}",
          a.kernel_h, a.kernel_w, a.stride, a.pad_top, a.pad_left, a.pad_bottom, a.pad_right);
  const DType dtype = a.x.dtype;
  expect_float_dtype("conv2d", "x", a.x, stream);
  expect_dense("x", a.x, {-1, -1, -1, -1}, dtype);
  expect_dense("y", a.y, {-1, -1, -1, -1}, dtype);
  const int64_t height = a.x.dim(1) + a.pad_top + a.pad_bottom, width = a.x.dim(2) + a.pad_left + a.pad_right;
  require(height >= a.kernel_h && width >= a.kernel_w,
          "conv2d: expected x of at least the kernel {}x{}, got {}", a.kernel_h, a.kernel_w,
          shape_string(a.x));
  const int64_t ho = (height - a.kernel_h) / a.stride + 1, wo = (width - a.kernel_w) / a.stride + 1;
  const int64_t co = a.y.dim(3);
  expect_dense("y", a.y, {a.x.dim(0), ho, wo, co}, dtype);
  if (a.bias.defined()) expect_dense("bias", a.bias, {co}, DType::f32);
  if (a.residual.defined()) expect_dense("residual", a.residual, {a.x.dim(0), ho, wo, co}, dtype);
  expect_dtype("conv2d", "packed", a.packed, DType::u8);
  expect_shape("conv2d", "packed", a.packed,
               {packed_bytes(co, a.x.dim(3), a.kernel_h, a.kernel_w, dtype, stream)});
}

}  // namespace

std::span<const Impl<Conv2dArgs>> conv2d_table() { return kTable; }

void conv2d(const Conv2dArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.y.numel() == 0) return;
  if (count_convolution("conv2d", args.x.dtype,
                        args.y.numel() * args.kernel_h * args.kernel_w * args.x.dim(3),
                        {args.x, args.packed, args.y}, stream))
    return;
  pick<Conv2dArgs>("conv2d", kTable, args, stream).run(args, stream);
}

int64_t packed_conv2d_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, Compute compute) {
  return cpu::conv_weight_bytes(1, co, ci, kernel_h, kernel_w, compute);
}

int64_t packed_conv2d_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                            const Stream& stream) {
  return packed_bytes(co, ci, kernel_h, kernel_w, stream.precision.activation, stream);
}

void pack_conv2d_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  expect_shape("pack_conv2d_weight", "weight", weight, {-1, -1, -1, -1});
  require(weight.contiguous() && cpu::widens(weight.dtype),
          "pack_conv2d_weight: expected a contiguous weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
  const int64_t co = weight.dim(0), ci = weight.dim(1), kernel_h = weight.dim(2), kernel_w = weight.dim(3);
  expect_shape("pack_conv2d_weight", "packed", packed,
               {packed_conv2d_bytes(co, ci, kernel_h, kernel_w, stream)});
  if (stream.measuring()) return;
  if (stream.gpu) {
    const int64_t taps = kernel_h * kernel_w;
    const auto row = [&](int64_t o, float* out) {
      cpu::widen(static_cast<const char*>(weight.data) + o * ci * taps * dtype_size(weight.dtype),
                 weight.dtype, ci * taps, out);
    };
    return cuda::conv_pack(stream.precision.activation, 1, co, ci, taps, row, packed, stream);
  }
  cpu::pack_conv_weight(weight.view({co, ci, 1, kernel_h, kernel_w}), packed.data, stream.precision.compute,
                        *stream.pool);
}

}  // namespace tachy::ops
