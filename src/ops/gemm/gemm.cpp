// Checks and dispatch of the linear layer.
#include "ops/gemm/gemm.h"

#include <algorithm>
#include <vector>

#include "cpu/onednn.h"
#include "cpu/widen.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Impl<GemmArgs> kTable[] = {
    {"onednn", gemm_why_not_onednn, gemm_onednn},
    {"ref", nullptr, gemm_ref},
};

void check_weight(const Tensor& weight) {
  require(weight.rank == 2 && weight.contiguous(), "gemm: expected a contiguous weight [N, K], got {}",
          shape_string(weight));
  require(cpu::widens(weight.dtype), "gemm: expected a weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
}

void check_args(const GemmArgs& a, const Stream& stream) {
  const char* op = "gemm";
  check_weight(a.weight);
  require(a.x.rank == 2, "gemm: expected x [M, K], got {}", shape_string(a.x));
  const int64_t m = a.x.dim(0), n = a.weight.dim(0), k = a.weight.dim(1);
  expect_float(op, "x", a.x, {m, k}, stream);
  expect_float(op, "y", a.y, {m, n}, stream);
  if (a.bias.defined()) {
    expect_float(op, "bias", a.bias, {n}, stream);
    expect_same_dtype(op, "bias", a.bias, a.y);
  }
  if (a.multiply.defined()) expect_float(op, "multiply", a.multiply, {m, n}, stream);
  if (a.residual.defined()) {
    expect_float(op, "residual", a.residual, {m, n}, stream);
    expect_same_dtype(op, "residual", a.residual, a.y);
  }
  if (stream.gpu) {
    expect_same_dtype(op, "weight", a.weight, a.x);
    require(!a.packed.defined(), "{}: expected no packed weight on the GPU, got one", op);
  }
  if (a.packed.defined()) {
    expect_dtype(op, "packed", a.packed, DType::u8);
    expect_shape(op, "packed", a.packed, {packed_gemm_bytes(n, k)});
  }
  require(!a.gate.defined() || a.residual.defined(), "gemm: a gate needs a residual");
  require(!a.row.defined() || a.gate.defined(), "gemm: row needs a gate");
  if (a.gate.defined()) {
    expect_f32(op, "gate", a.gate, {-1, n});
    expect_rows(op, a.row, m, a.gate.dim(0), stream);
  }
}

}  // namespace

std::span<const Impl<GemmArgs>> gemm_table() { return kTable; }

void gemm(const GemmArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.x.dim(0) == 0 || args.weight.dim(0) == 0) return;
  require(args.x.dim(1) > 0, "gemm: expected K >= 1, got 0");
  stream.count_flops(2.0 * static_cast<double>(args.x.dim(0) * args.x.dim(1)) *
                     static_cast<double>(args.weight.dim(0)));
  pick<GemmArgs>("gemm", kTable, args, stream).run(args, stream);
}

int64_t packed_gemm_bytes(int64_t n, int64_t k) {
  const int64_t whole = n / kSlabColumns, rest = n % kSlabColumns;
  return (whole ? whole * cpu::packed_matmul_bytes(k, kSlabColumns) : 0) +
         (rest ? cpu::packed_matmul_bytes(k, rest) : 0);
}

void pack_gemm_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  check_weight(weight);
  expect_dtype("pack_gemm_weight", "packed", packed, DType::u8);
  expect_shape("pack_gemm_weight", "packed", packed, {packed_gemm_bytes(weight.dim(0), weight.dim(1))});
  if (stream.measuring()) return;
  const int64_t n = weight.dim(0), k = weight.dim(1), columns = kSlabColumns;
  stream.pool->run((n + columns - 1) / columns, [&](int64_t slab, int) {
    const int64_t first = slab * columns, count = std::min(columns, n - first);
    std::vector<float> wide(static_cast<size_t>(count * k));
    cpu::widen(static_cast<const char*>(weight.data) + first * k * dtype_size(weight.dtype), weight.dtype,
               count * k, wide.data());
    cpu::pack_matmul(
        k, count, wide.data(),
        static_cast<char*>(packed.data) + (slab ? slab * cpu::packed_matmul_bytes(k, columns) : 0));
  });
}

}  // namespace tachy::ops
