// Attention's implementations on the GPU. A header that nvcc accepts.
#pragma once

#include <optional>

#include "base/refusal.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_backward.h"

namespace tachy::ops {

// Refuses lists of blocks, for kernels that go through all keys that they are given.
inline std::optional<Refusal> why_not_listed(const AttentionArgs& a) {
  if (a.blocks.defined()) return Refusal::arguments("lists of key blocks");
  return std::nullopt;
}
// Refuses all but one range whose keys all exist, for kernels that need one.
inline std::optional<Refusal> why_not_whole(const AttentionArgs& a) {
  if (!a.more.empty()) return Refusal::arguments("several ranges of keys");
  if (a.length.defined()) return Refusal::arguments("a number of keys that is known on the device only");
  return why_not_listed(a);
}

// The GPU's implementations: our own flash kernels for Hopper (in 8 bits, if allowed), one for up to 16 keys,
// cuDNN's, our own flash kernels for any GPU (in 8 bits, for up to 80 keys, for many and for any number), products with a softmax
// between, and one for every other case.
std::optional<Refusal> attention_why_not_sm90(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_sm90_many_keys(const AttentionArgs& args, const Stream& stream);
void attention_sm90(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_flash8(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_flash8_many_keys(const AttentionArgs& args, const Stream& stream);
void attention_flash8(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_flash8_sm80(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_flash8_sm80_many_keys(const AttentionArgs& args,
                                                               const Stream& stream);
void attention_flash8_sm80(const AttentionArgs& args, Stream& stream);
void attention_flash8_sm80_half(const AttentionArgs& args, Stream& stream);  // always with f16 sums
// The part of flash8_sm80 that looks at causal masks and key biases, with f16 sums or without, and the shared memory
// of its blocks.
void attention_flash8_masks_sm80(const AttentionArgs& args, bool half, Stream& stream);
size_t attention_flash8_masks_shared(const AttentionArgs& args);
std::optional<Refusal> attention_why_not_flash8_e4m3(const AttentionArgs& args, const Stream& stream);
void attention_flash8_e4m3(const AttentionArgs& args, Stream& stream);  // v in e4m3
std::optional<Refusal> attention_why_not_ranges_sm90(const AttentionArgs& args, const Stream& stream);
void attention_ranges_sm90(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_masks_sm90(const AttentionArgs& args, const Stream& stream);
void attention_masks_sm90(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_blocks_sm90(const AttentionArgs& args, const Stream& stream);
void attention_blocks_sm90(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_blocks8_sm80(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_blocks8_sm80_many_keys(const AttentionArgs& args,
                                                                const Stream& stream);
void attention_blocks8_sm80(const AttentionArgs& args, Stream& stream);
void attention_blocks8_sm80_half(const AttentionArgs& args, Stream& stream);  // always with f16 sums
std::optional<Refusal> attention_why_not_blocks_sm80(const AttentionArgs& args, const Stream& stream);
void attention_blocks_sm80(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_cudnn(const AttentionArgs& args, const Stream& stream);
void attention_cudnn(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_handful(const AttentionArgs& args, const Stream& stream);
void attention_handful(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_few_keys(const AttentionArgs& args, const Stream& stream);
void attention_few_keys(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_long_sm80(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_long_sm80_many_keys(const AttentionArgs& args, const Stream& stream);
void attention_long_sm80(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_stays_sm80(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_stays_sm80_many_tiles(const AttentionArgs& args,
                                                               const Stream& stream);
void attention_stays_sm80(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_sm80(const AttentionArgs& args, const Stream& stream);
std::optional<Refusal> attention_why_not_sm80_before_library(const AttentionArgs& args, const Stream& stream);
void attention_sm80(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_ranges_sm80(const AttentionArgs& args, const Stream& stream);
void attention_ranges_sm80(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_softmax_gemm(const AttentionArgs& args, const Stream& stream);
void attention_softmax_gemm(const AttentionArgs& args, Stream& stream);
void attention_plain_cuda(const AttentionArgs& args, Stream& stream);

// The implementations of the backward pass: flash in one pass over the queries, flash in two kernels, and one
// for every other case.
std::optional<Refusal> attention_backward_why_not_sm80(const AttentionBackwardArgs& args,
                                                       const Stream& stream);
void attention_backward_sm80(const AttentionBackwardArgs& args, Stream& stream);
std::optional<Refusal> attention_backward_why_not_one_pass(const AttentionBackwardArgs& args,
                                                           const Stream& stream);
void attention_backward_one_pass(const AttentionBackwardArgs& args, Stream& stream);
void attention_backward_plain_cuda(const AttentionBackwardArgs& args, Stream& stream);

struct AttentionBand {
  int64_t batch, head, first, rows;  // query rows [first, first + rows) of one head
};
// Turns scores [rows, Lk] f32 into weights of q's dtype (may be the same memory), and
// writes lse if it is given.
void attention_softmax_cuda(const AttentionArgs& args, const AttentionBand& band, const Tensor& scores,
                            const Tensor& weights, Stream& stream);

}  // namespace tachy::ops
