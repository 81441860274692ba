// Checks and dispatch of the linear layer.
#include "ops/gemm/gemm.h"

#include <algorithm>
#include <vector>

#include "cpu/panels.h"
#include "cpu/widen.h"
#include "ops/count_work.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Impl<GemmArgs> kTable[] = {
    gpu_impl<gemm_cublaslt, gemm_why_not_cublaslt>("cublaslt"),
    {"bf16", gemm_why_not_bf16, gemm_bf16},
    {"split", gemm_why_not_split, gemm_split},
    {"f32", gemm_why_not_f32, gemm_f32},
    {"ref", nullptr, gemm_ref},
};

void check_weight(const Tensor& weight) {
  if (weight.rank != 2 || !weight.contiguous())
    fail(ErrorCode::invalid_argument, "gemm: expected a contiguous weight [N, K], got {}",
         shape_string(weight));
  require(cpu::widens(weight.dtype), "gemm: expected a weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
}

void check_args(const GemmArgs& a, const Stream& stream) {
  const char* op = "gemm";
  check_weight(a.weight);
  if (a.x.rank != 2) fail(ErrorCode::invalid_argument, "gemm: expected x [M, K], got {}", shape_string(a.x));
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
    expect_shape(op, "packed", a.packed, {packed_gemm_bytes(n, k, stream.precision.compute)});
  }
  require(!a.gate.defined() || a.residual.defined(), "gemm: a gate needs a residual");
  require(!a.row.defined() || a.gate.defined(), "gemm: row needs a gate");
  if (a.gate.defined()) {
    expect_f32(op, "gate", a.gate, {-1, n});
    expect_rows(op, a.row, m, a.gate.dim(0), stream);
  }
}

// Returns rows [first, first + count) of the stacked parts as one block, in place or gathered.
const void* weight_rows(std::span<const Tensor> parts, int64_t first, int64_t count,
                        std::vector<char>& gathered) {
  const int64_t row_bytes = parts.front().dim(1) * dtype_size(parts.front().dtype);
  for (const Tensor& part : parts) {
    const int64_t here = std::min(part.dim(0) - first, count);
    if (here > 0) {
      const char* from = static_cast<const char*>(part.data) + first * row_bytes;
      if (here == count && gathered.empty()) return from;
      gathered.insert(gathered.end(), from, from + here * row_bytes);
      first += here, count -= here;
    }
    first -= part.dim(0);
  }
  return gathered.data();
}

}  // namespace

std::span<const Impl<GemmArgs>> gemm_table() { return kTable; }

void gemm(const GemmArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.x.dim(0) == 0 || args.weight.dim(0) == 0) return;
  require(args.x.dim(1) > 0, "gemm: expected K >= 1, got 0");
  const bool tf32 = args.x.dtype == DType::f32 && stream.precision.products == Products::tf32;
  if (count_product("gemm", tf32 ? DType::f16 : args.x.dtype, args.x.dim(0), args.weight.dim(0),
                    args.x.dim(1), {args.x, args.weight, args.multiply, args.residual, args.y}, stream))
    return;
  pick<GemmArgs>("gemm", kTable, args, stream).run(args, stream);
}

bool gemm_reads_packed(const GemmArgs& args, const Stream& stream) {
  if (!args.packed.defined()) return false;
  const auto* impl = choose<GemmArgs>("gemm", kTable, args, stream);
  return impl && !is_definition(*impl);
}

int64_t packed_gemm_bytes(int64_t n, int64_t k, Compute compute) {
  compute = cpu::usable(compute);
  return cpu::panels_bytes(cpu::panel_depth(k, compute), n, compute);
}

void pack_gemm_weight(std::span<const Tensor> parts, const Tensor& packed, Stream& stream) {
  require(!parts.empty(), "pack_gemm_weight: expected a weight, got none");
  int64_t n = 0;
  const int64_t k = parts.front().dim(-1);
  for (const Tensor& part : parts) {
    check_weight(part);
    expect_shape("pack_gemm_weight", "weight", part, {-1, k});
    expect_dtype("pack_gemm_weight", "weight", part, parts.front().dtype);
    n += part.dim(0);
  }
  const Compute compute = cpu::usable(stream.precision.compute);
  expect_dtype("pack_gemm_weight", "packed", packed, DType::u8);
  expect_shape("pack_gemm_weight", "packed", packed, {packed_gemm_bytes(n, k, compute)});
  if (stream.measuring()) return;
  const int64_t depth = cpu::panel_depth(k, compute), columns = cpu::panel_columns(compute);
  stream.pool->run(cpu::panels_count(n, compute), [&](int64_t panel, int) {
    std::vector<char> scratch(static_cast<size_t>(cpu::kPanelPackScratch)), gathered;
    const int64_t first = panel * columns, count = std::min(columns, n - first);
    cpu::pack_panel(weight_rows(parts, first, count, gathered), parts.front().dtype, k, count, k, depth,
                    cpu::panel_width(n, panel, compute), compute,
                    static_cast<char*>(packed.data) + cpu::panel_offset(depth, panel, compute),
                    scratch.data());
  });
}

}  // namespace tachy::ops
