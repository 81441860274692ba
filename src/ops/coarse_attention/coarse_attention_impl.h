// The implementations of coarse_attention, for its table and the op runner.
#pragma once

#include "ops/coarse_attention/coarse_attention.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void coarse_attention_ref(const CoarseAttentionArgs& args, Stream& stream);
void coarse_attention_working(const CoarseAttentionArgs& args,
                              Stream& stream);  // in float32; for `out` alone
std::optional<Refusal> coarse_attention_why_not_cuda(const CoarseAttentionArgs& args, const Stream& stream);
void coarse_attention_cuda(const CoarseAttentionArgs& args, Stream& stream);
std::span<const Impl<CoarseAttentionArgs>> coarse_attention_table();

}  // namespace tachy::ops
