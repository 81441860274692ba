// The implementations of linear_attention, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/linear_attention/linear_attention.h"

namespace tachy::ops {

void linear_attention_ref(const LinearAttentionArgs& args, Stream& stream);
void linear_attention_working(const LinearAttentionArgs& args, Stream& stream);  // in float32
std::optional<Refusal> linear_attention_why_not_cuda(const LinearAttentionArgs& args, const Stream& stream);
void linear_attention_cuda(const LinearAttentionArgs& args, Stream& stream);
void linear_attention_plain_cuda(const LinearAttentionArgs& args, Stream& stream);
std::span<const Impl<LinearAttentionArgs>> linear_attention_table();

}  // namespace tachy::ops
