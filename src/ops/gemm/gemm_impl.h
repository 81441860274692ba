// The implementations of gemm, for its table and the op runner, and the epilogue that they share.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// The slabs of columns that mapped weights are multiplied in; fixed, whatever the machine.
inline constexpr int64_t kSlabColumns = 128;

// One row of a tile: y[i] = residual[i] + gate[i]·(act(t[i] + bias[i])·multiply[i]), i < count; absent terms
// are null.
struct EpilogueRow {
  const float* t;
  const float* bias;
  const float* multiply;
  const float* gate;
  const float* residual;
  float* y;
  int64_t count;
  Activation act;
};
void run_epilogue_row(const EpilogueRow& row);

std::optional<std::string> gemm_why_not_cublaslt(const GemmArgs& args, const Stream& stream);
void gemm_cublaslt(const GemmArgs& args, Stream& stream);
std::optional<std::string> gemm_why_not_f32(const GemmArgs& args, const Stream& stream);
std::optional<std::string> gemm_why_not_bf16(const GemmArgs& args, const Stream& stream);
void gemm_f32(const GemmArgs& args, Stream& stream);
void gemm_bf16(const GemmArgs& args, Stream& stream);  // x and weights rounded to bf16, sums in float
std::optional<std::string> gemm_why_not_onednn(const GemmArgs& args, const Stream& stream);
void gemm_onednn(const GemmArgs& args, Stream& stream);
void gemm_ref(const GemmArgs& args, Stream& stream);  // the definition: plain loops, sums in double
// The same with sums in float, and what bf16 rounds rounded where the stream asks for it: the tolerance's
// yardstick.
void gemm_working(const GemmArgs& args, Stream& stream);
std::span<const Impl<GemmArgs>> gemm_table();

}  // namespace tachy::ops
