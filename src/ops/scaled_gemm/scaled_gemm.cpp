// Checks and dispatch of the linear layer in 8 bits.
#include "ops/scaled_gemm/scaled_gemm.h"

#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

constexpr Impl<ScaledGemmArgs> kTable[] = {
    gpu_impl<scaled_gemm_cublaslt, scaled_gemm_why_not_cublaslt>("cublaslt"),
    gpu_impl<scaled_gemm_sm80, scaled_gemm_why_not_sm80>("sm80"),
    gpu_impl<scaled_gemm_plain_sm80, scaled_gemm_why_not_plain_sm80>("plain_sm80"),
    {"amx", scaled_gemm_why_not_amx, scaled_gemm_amx},
    {"vnni", scaled_gemm_why_not_vnni, scaled_gemm_vnni},
    {"simd", scaled_gemm_why_not_simd, scaled_gemm_simd},
    {"ref", nullptr, scaled_gemm_ref},
};

void check_args(const ScaledGemmArgs& a, const Stream& stream) {
  const char* op = "scaled_gemm";
  require(a.x.rank == 2 && a.weight.rank == 2, "{}: expected x [M, K] and a weight [N, K], got {} and {}", op,
          shape_string(a.x), shape_string(a.weight));
  const int64_t m = a.x.dim(0), n = a.weight.dim(0), k = a.weight.dim(1);
  expect_shape(op, "x", a.x, {m, k});
  require(a.x.dtype == DType::f8_e4m3 || a.x.dtype == DType::i8, "{}: expected x f8_e4m3 or i8, got {}", op,
          dtype_name(a.x.dtype));
  expect_same_dtype(op, "weight", a.weight, a.x);
  require(a.x.inner_contiguous(), "{}: expected x with a contiguous last dim, got stride {}", op,
          a.x.stride(-1));
  expect_contiguous(op, "weight", a.weight);
  if (a.packed.defined()) {
    require(!stream.gpu && a.x.dtype == DType::i8, "{}: expected a packed weight only on a CPU and of i8",
            op);
    expect_dtype(op, "packed", a.packed, DType::u8);
    expect_shape(op, "packed", a.packed, {packed_scaled_gemm_bytes(n, k)});
  }
  for (const Tensor* t : {&a.x, &a.weight}) expect_here(op, t == &a.x ? "x" : "weight", *t, stream);
  expect_f32(op, "x_scale", a.x_scale, {m});
  expect_f32(op, "weight_scale", a.weight_scale, {n});
  expect_float(op, "y", a.y, {m, n}, stream);
  if (a.bias.defined()) {
    expect_float(op, "bias", a.bias, {n}, stream);
    expect_same_dtype(op, "bias", a.bias, a.y);
  }
  if (a.addend.defined()) {
    expect_float(op, "addend", a.addend, {m, n}, stream);
    expect_same_dtype(op, "addend", a.addend, a.y);
  }
}

}  // namespace

std::span<const Impl<ScaledGemmArgs>> scaled_gemm_table() { return kTable; }

void scaled_gemm(const ScaledGemmArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.x.dim(0) == 0 || args.weight.dim(0) == 0) return;
  require(args.x.dim(1) > 0, "scaled_gemm: expected K >= 1, got 0");
  if (count_product("scaled_gemm", args.x.dtype, args.x.dim(0), args.weight.dim(0), args.x.dim(1),
                    {args.x, args.weight, args.addend, args.y}, stream))
    return;
  pick<ScaledGemmArgs>("scaled_gemm", kTable, args, stream).run(args, stream);
}

}  // namespace tachy::ops
