// Checks and dispatch of the linear layer.
#include "ops/gemm/gemm.h"

#include <algorithm>
#include <vector>

#include "cpu/onednn.h"
#include "cpu/widen.h"
#include "ops/gemm/gemm_impl.h"

namespace tachy::ops {
namespace {

constexpr Impl<GemmArgs> kTable[] = {
    {"onednn", gemm_why_not_onednn, gemm_onednn},
    {"ref", nullptr, gemm_ref},
};

void expect_rows(const char* name, const Tensor& t, std::initializer_list<int64_t> shape) {
  expect_shape("gemm", name, t, shape);
  expect_dtype("gemm", name, t, DType::f32);
  require(t.inner_contiguous(), "gemm: expected {} with contiguous rows, got inner stride {}", name,
          t.stride(-1));
}

void check_weight(const Tensor& weight) {
  require(weight.rank == 2 && weight.contiguous(), "gemm: expected a contiguous weight [N, K], got {}",
          shape_string(weight));
  require(cpu::widens(weight.dtype), "gemm: expected a weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
}

void check_args(const GemmArgs& a, bool measuring) {
  check_weight(a.weight);
  require(a.x.rank == 2, "gemm: expected x [M, K], got {}", shape_string(a.x));
  const int64_t m = a.x.dim(0), n = a.weight.dim(0), k = a.weight.dim(1);
  expect_rows("x", a.x, {m, k});
  expect_rows("y", a.y, {m, n});
  if (a.bias.defined()) expect_rows("bias", a.bias, {n});
  if (a.multiply.defined()) expect_rows("multiply", a.multiply, {m, n});
  if (a.residual.defined()) expect_rows("residual", a.residual, {m, n});
  if (a.packed.defined()) {
    expect_dtype("gemm", "packed", a.packed, DType::u8);
    expect_shape("gemm", "packed", a.packed, {packed_gemm_bytes(n, k)});
  }
  require(!a.gate.defined() || a.residual.defined(), "gemm: a gate needs a residual");
  require(!a.row.defined() || a.gate.defined(), "gemm: row needs a gate");
  if (a.gate.defined()) expect_rows("gate", a.gate, {-1, n});
  if (a.row.defined()) {
    expect_dtype("gemm", "row", a.row, DType::i32);
    expect_shape("gemm", "row", a.row, {m});
    require(a.row.contiguous(), "gemm: expected a contiguous row [M]");
    if (measuring) return;
    const int32_t* row = a.row.as<int32_t>();
    for (int64_t i = 0; i < m; ++i)
      require(row[i] >= 0 && row[i] < a.gate.dim(0), "gemm: expected row[{}] in [0, {}), got {}", i,
              a.gate.dim(0), row[i]);
  }
}

}  // namespace

std::span<const Impl<GemmArgs>> gemm_table() { return kTable; }

void gemm(const GemmArgs& args, Stream& stream) {
  check_args(args, stream.measuring());
  if (args.x.dim(0) == 0 || args.weight.dim(0) == 0) return;
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
