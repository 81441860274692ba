// Checks, packing and dispatch of upsampling with convolution.
//
// Phase (a, b) computes y[2i + a, 2j + b]: its 3x3 taps fall on two rows and two columns of x. For a = 0 row
// tap 0 reads x row i − 1 and taps 1, 2 read row i; for a = 1 taps 0, 1 read row i and tap 2 reads row i + 1;
// the same holds for columns. The sums of taps are computed in double and rounded once.
#include "ops/upsample_conv2d/upsample_conv2d.h"

#include <memory>
#include <vector>

#include "cpu/conv_weights.h"
#include "cpu/widen.h"
#include "cuda/conv/conv.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {
namespace {

constexpr Impl<UpsampleConv2dArgs> kTable[] = {
    gpu_impl<upsample_conv2d_sm90, upsample_conv2d_why_not_sm90>("sm90"),
    gpu_impl<upsample_conv2d_sm80, upsample_conv2d_why_not_sm80>("sm80"),
    gpu_impl<upsample_conv2d_simple, upsample_conv2d_why_not_simple>("simple"),
    gpu_impl<upsample_conv2d_tf32, upsample_conv2d_why_not_tf32>(
        "tf32"),  // not compared with the definition on a GPU yet
    {"bf16", upsample_conv2d_why_not_bf16, upsample_conv2d_bf16},
    {"f32", upsample_conv2d_why_not_f32, upsample_conv2d_f32},
    {"onednn", upsample_conv2d_why_not_onednn, upsample_conv2d_onednn},
    {"ref", nullptr, upsample_conv2d_ref},
};

void expect_dense(const char* name, const Tensor& t, std::initializer_list<int64_t> shape, DType dtype) {
  expect_shape("upsample_conv2d", name, t, shape);
  expect_dtype("upsample_conv2d", name, t, dtype);
  require(t.contiguous(), "upsample_conv2d: expected a contiguous {}", name);
}

int64_t packed_bytes(int64_t co, int64_t ci, DType dtype, const Stream& stream) {
  return stream.gpu ? cuda::conv_packed_bytes(dtype, 4, co, ci, 4)
                    : ops::packed_upsample_conv2d_bytes(co, ci, stream.precision.compute);
}

void check_args(const UpsampleConv2dArgs& a, const Stream& stream) {
  expect_float_dtype("upsample_conv2d", "x", a.x, stream);
  expect_dense("x", a.x, {-1, -1, -1, -1}, a.x.dtype);
  expect_dense("y", a.y, {a.x.dim(0), 2 * a.x.dim(1), 2 * a.x.dim(2), -1}, a.x.dtype);
  const int64_t co = a.y.dim(3);
  if (a.bias.defined()) expect_dense("bias", a.bias, {co}, DType::f32);
  expect_dtype("upsample_conv2d", "packed", a.packed, DType::u8);
  expect_shape("upsample_conv2d", "packed", a.packed, {packed_bytes(co, a.x.dim(3), a.x.dtype, stream)});
}

// Which of a phase's two source rows (or columns) tap 0, 1 or 2 reads.
int source_of(int phase, int tap) { return phase == 0 ? (tap > 0) : (tap > 1); }

// Makes the phase kernel [Ci, 2, 2] from the kernel [Ci, 3, 3].
void phase_kernel(const float* kernel, int64_t ci, int a, int b, float* out) {
  for (int64_t c = 0; c < ci; ++c) {
    double sums[4] = {};
    for (int p = 0; p < 3; ++p)
      for (int q = 0; q < 3; ++q) sums[source_of(a, p) * 2 + source_of(b, q)] += kernel[c * 9 + p * 3 + q];
    for (int i = 0; i < 4; ++i) out[c * 4 + i] = static_cast<float>(sums[i]);
  }
}

}  // namespace

std::span<const Impl<UpsampleConv2dArgs>> upsample_conv2d_table() { return kTable; }

void upsample_conv2d(const UpsampleConv2dArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.y.numel() == 0) return;
  if (count_convolution("upsample_conv2d", args.x.dtype, args.y.numel() * 4 * args.x.dim(3),
                        {args.x, args.packed, args.y}, stream))
    return;
  pick<UpsampleConv2dArgs>("upsample_conv2d", kTable, args, stream).run(args, stream);
}

int64_t packed_upsample_conv2d_bytes(int64_t co, int64_t ci, Compute compute) {
  return 4 * cpu::conv_weight_bytes(1, co, ci, 2, 2, compute);
}

int64_t packed_upsample_conv2d_bytes(int64_t co, int64_t ci, const Stream& stream) {
  return packed_bytes(co, ci, stream.precision.activation, stream);
}

void pack_upsample_conv2d_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  expect_shape("pack_upsample_conv2d_weight", "weight", weight, {-1, -1, 3, 3});
  require(weight.contiguous() && cpu::widens(weight.dtype),
          "pack_upsample_conv2d_weight: expected a contiguous weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
  const int64_t co = weight.dim(0), ci = weight.dim(1);
  expect_shape("pack_upsample_conv2d_weight", "packed", packed,
               {packed_upsample_conv2d_bytes(co, ci, stream)});
  if (stream.measuring()) return;
  if (stream.gpu) {
    const auto row = [&](int64_t index, float* out) {
      const int phase = static_cast<int>(index / co);
      const auto plain = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(ci * 9));
      cpu::widen(weight.flat(index % co * ci * 9, ci * 9).data, weight.dtype, ci * 9, plain.get());
      phase_kernel(plain.get(), ci, phase / 2, phase % 2, out);
    };
    return cuda::conv_pack(stream.precision.activation, 4, co, ci, 4, row, packed, stream);
  }
  std::vector<float> wide(static_cast<size_t>(co * ci * 9));
  cpu::widen(weight.data, weight.dtype, weight.numel(), wide.data());
  const int64_t block = packed_upsample_conv2d_bytes(co, ci, stream.precision.compute) / 4;
  stream.pool->run(4, [&](int64_t phase, int) {
    std::vector<float> kernel(static_cast<size_t>(co * ci * 4));
    for (int64_t o = 0; o < co; ++o)
      phase_kernel(wide.data() + o * ci * 9, ci, static_cast<int>(phase / 2), static_cast<int>(phase % 2),
                   kernel.data() + o * ci * 4);
    cpu::pack_conv_weight(Tensor(kernel.data(), DType::f32, {co, ci, 1, 2, 2}),
                          static_cast<char*>(packed.data) + phase * block, stream.precision.compute,
                          *stream.pool);
  });
}

}  // namespace tachy::ops
