// The implementations of attention, for its table and the op runner.
#pragma once

#include <algorithm>

#include "ops/attention/attention.h"
#include "ops/attention/attention_backward.h"
#include "ops/attention/attention_cuda.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// How many keys (always the first ones) query i may see.
inline int64_t visible_keys(const AttentionArgs& a, int64_t i) {
  const int64_t keys = a.k.dims[1];
  if (!a.causal) return keys;
  return std::clamp<int64_t>(i + a.causal_offset + 1, 0, keys);
}

// Throws unless shapes, strides and options fit together;
// q, k, v and out of `dtype`, biases and lse of `wide`.
void check_attention(const char* op, const AttentionArgs& args, DType dtype, DType wide);

// The definition: plain loops, float64 inside; q, k and v rounded where the stream asks for bf16.
void attention_ref(const AttentionArgs& args, Stream& stream);
// The same in float32, sums in order, for bf16 the weights rounded too: the tolerance's yardstick.
void attention_working(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_cpu(const AttentionArgs& args, const Stream& stream);
void attention_cpu(const AttentionArgs& args, Stream& stream);  // Highway, in float32
// Where the stream asks for bf16 and the CPU has it: q, k, v and the softmax's weights rounded to bf16.
std::optional<Refusal> attention_why_not_bf16(const AttentionArgs& args, const Stream& stream);
void attention_bf16(const AttentionArgs& args, Stream& stream);

std::span<const Impl<AttentionArgs>> attention_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void attention_backward_ref(const AttentionBackwardArgs& args, Stream& stream);
void attention_backward_working(const AttentionBackwardArgs& args, Stream& stream);
std::span<const Impl<AttentionBackwardArgs>> attention_backward_table();

}  // namespace tachy::ops
