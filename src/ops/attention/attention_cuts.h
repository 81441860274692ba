// Attention's implementations on the GPU over lists of blocks that are cut to sizes of their own. A header that nvcc
// accepts.
#pragma once

#include <optional>

#include "base/refusal.h"
#include "ops/attention/attention.h"

namespace tachy::ops {

std::optional<Refusal> attention_why_not_cuts_sm90(const AttentionArgs& args, const Stream& stream);
void attention_cuts_sm90(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_cuts_sm80(const AttentionArgs& args, const Stream& stream);
void attention_cuts_sm80(const AttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
