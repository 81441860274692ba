// Checks and dispatch of the low-rank adapters.
#include "cpu/widen.h"
#include "ops/count_work.h"
#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Impl<LoraArgs> kTable[] = {
    gpu_impl<lora_cublaslt, lora_why_not_cublaslt>("cublaslt"),
    gpu_impl<lora_few_rows, lora_why_not_few_rows>("few_rows"),
    gpu_impl<lora_sm80, lora_why_not_sm80>("sm80"),
    gpu_impl<lora_cuda_plain>("cuda_plain"),
    {"cpu", nullptr, lora_cpu},
    {"ref", nullptr, lora_ref},
};

void check_args(const LoraArgs& a, const LoraShape& s, const Stream& stream) {
  const char* op = "lora";
  expect_float(op, "x", a.x, {s.m, s.k}, stream);
  expect_float(op, "y", a.y, {s.m, s.n}, stream);
  expect_same_dtype(op, "y", a.y, a.x);
  if (stream.gpu) {
    expect_float(op, "a", a.a, {s.adapters, s.rank, s.k}, stream);
    expect_float(op, "b", a.b, {s.adapters, s.n, s.rank}, stream);
    expect_same_dtype(op, "a", a.a, a.x);
  } else {
    require(a.a.dtype == DType::f32 || a.a.dtype == DType::f16 || a.a.dtype == DType::bf16,
            "{}: expected a f32, f16 or bf16, got {}", op, dtype_name(a.a.dtype));
    require(a.a.inner_contiguous() && a.b.inner_contiguous(),
            "{}: expected a and b with a contiguous last dim, got strides {} and {}", op, a.a.stride(-1),
            a.b.stride(-1));
  }
  expect_same_dtype(op, "b", a.b, a.a);
  if (a.scales.defined()) {
    expect_here(op, "scales", a.scales, stream);
    expect_f32(op, "scales", a.scales, {s.adapters});
  }
  expect_adapters(op, a.index, s, stream);
}

}  // namespace

LoraShape lora_shape(const char* op, const Tensor& x, const Tensor& a, const Tensor& b) {
  const auto expect_rank = [op](const Tensor& t, int rank, const char* what) {
    if (t.rank != rank)
      fail(ErrorCode::invalid_argument, "{}: expected {}, got {}", op, what, shape_string(t));
  };
  expect_rank(x, 2, "x [M, K]");
  expect_rank(a, 3, "a [n, r, K]");
  expect_rank(b, 3, "b [n, N, r]");
  const LoraShape s{.m = x.dim(0), .k = x.dim(1), .n = b.dim(1), .rank = a.dim(1), .adapters = a.dim(0)};
  expect_shape(op, "a", a, {-1, -1, s.k});
  expect_shape(op, "b", b, {s.adapters, -1, s.rank});
  require(s.adapters >= 1 && s.adapters <= 65535, "{}: expected 1 to 65535 adapters, got {}", op, s.adapters);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (s.rank < 1 || s.k < 1 || s.n < 1 || s.adapters * s.rank > kMost || s.k > kMost || s.n > kMost)
    fail(ErrorCode::invalid_argument, "{}: expected ranks and widths of 1 to 2^30, got a {} and b {}", op,
         shape_string(a), shape_string(b));
  return s;
}

void expect_adapters(const char* op, const Tensor& index, const LoraShape& shape, const Stream& stream) {
  if (!index.defined()) return;
  expect_here(op, "index", index, stream);
  expect_shape(op, "index", index, {shape.m});
  expect_dtype(op, "index", index, DType::i32);
  expect_contiguous(op, "index", index);
  if (stream.measuring() || stream.gpu) return;
  const int32_t* i = index.as<int32_t>();
  for (int64_t m = 0; m < shape.m; ++m)
    require(i[m] >= -1 && i[m] < shape.adapters, "{}: expected index[{}] in [-1, {}), got {}", op, m,
            shape.adapters, i[m]);
}

std::span<const Impl<LoraArgs>> lora_table() { return kTable; }

void lora(const LoraArgs& args, Stream& stream) {
  const LoraShape s = lora_shape("lora", args.x, args.a, args.b);
  check_args(args, s, stream);
  if (s.m == 0) return;
  if (count_product("lora", args.x.dtype, s.m, s.rank * (args.index.defined() ? 1 : s.adapters), s.k + s.n,
                    {args.x, args.a, args.b, args.y}, stream))
    return;
  pick<LoraArgs>("lora", kTable, args, stream).run(args, stream);
}

}  // namespace tachy::ops
