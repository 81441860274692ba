// The implementations of gemm, for its table and the op runner, and the epilogue that they share.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// Divides `total` into about equal parts and returns their size: a multiple of `step`, at most `limit` (which
// is one, too).
inline int64_t split_evenly(int64_t total, int64_t limit, int64_t step) {
  const int64_t count = (total + limit - 1) / limit;
  return ((total + count - 1) / count + step - 1) / step * step;
}

// One row of a tile: y[i] = residual[i] + gate[i]·(act(t[i] + bias[i])·multiply[i]),
// i < count; absent terms are null.
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
// Applies the epilogue to a tile of sums t [rows, columns] whose first element is y[row, column].
void gemm_finish_tile(const GemmArgs& args, const float* t, int64_t t_stride, int64_t row, int64_t rows,
                      int64_t column, int64_t columns);

std::optional<Refusal> gemm_why_not_cublaslt(const GemmArgs& args, const Stream& stream);
void gemm_cublaslt(const GemmArgs& args, Stream& stream);
std::optional<Refusal> gemm_why_not_f32(const GemmArgs& args, const Stream& stream);
std::optional<Refusal> gemm_why_not_bf16(const GemmArgs& args, const Stream& stream);
void gemm_f32(const GemmArgs& args, Stream& stream);
std::optional<Refusal> gemm_why_not_split(const GemmArgs& args, const Stream& stream);
void gemm_split(const GemmArgs& args, Stream& stream);  // sums of bf16 tiles, with float32's error
void gemm_bf16(const GemmArgs& args, Stream& stream);   // x and weights are rounded to bf16, sums are float
void gemm_ref(const GemmArgs& args, Stream& stream);    // the definition, in plain loops with sums in double
// The definition with sums in float, and with operands rounded to bf16 if the stream asks for that; its error
// sets the tolerance.
void gemm_working(const GemmArgs& args, Stream& stream);
std::span<const Impl<GemmArgs>> gemm_table();

}  // namespace tachy::ops
