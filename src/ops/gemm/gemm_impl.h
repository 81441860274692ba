// Entries of gemm's table, and the epilogue that they share.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"

namespace tachy::ops::gemm_impl {

// The slabs of columns that weights are packed and multiplied in; fixed, whatever the machine.
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

std::optional<std::string> why_not_onednn(const GemmArgs& args, const Stream& stream);
void run_onednn(const GemmArgs& args, Stream& stream);
void run_ref(const GemmArgs& args, Stream& stream);

}  // namespace tachy::ops::gemm_impl
