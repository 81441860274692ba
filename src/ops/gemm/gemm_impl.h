// Entries of gemm's table.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"

namespace tachy::ops::gemm_impl {

void run_ref(const GemmArgs& args, Stream& stream);

}  // namespace tachy::ops::gemm_impl
