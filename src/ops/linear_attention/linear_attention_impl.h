// The implementations of linear_attention, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/linear_attention/linear_attention.h"

namespace tachy::ops {

void linear_attention_ref(const LinearAttentionArgs& args, Stream& stream);
std::span<const Impl<LinearAttentionArgs>> linear_attention_table();

}  // namespace tachy::ops
