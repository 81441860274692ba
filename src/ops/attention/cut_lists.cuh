// Lists of blocks of keys that may be cut to sizes of their own, in the form that kernels take.
#pragma once

#include "base/refusal.h"
#include "device/token_span.cuh"
#include "ops/attention/key_ranges.cuh"

namespace tachy::ops::flash {

using Span = device::TokenSpan;

struct CutLists : Lists {
  // Where blocks end; null if all have BlockLists::kTokens.
  const int32_t *query_ends = nullptr, *key_ends = nullptr;
};

__device__ __forceinline__ Span span_of(const int32_t* ends, int i, int tokens, int most) {
  return device::token_span(ends, i, tokens, static_cast<int>(BlockLists::kTokens), most);
}

inline int64_t blocks_of(const BlockCuts& cuts, int64_t tokens) {
  return cuts.defined() ? cuts.ends.dims[0] : BlockLists::blocks_of(tokens);
}

inline CutLists cut_lists_of(const AttentionArgs& a) {
  CutLists lists;
  static_cast<Lists&>(lists) = lists_of(a);
  lists.last = static_cast<int>(blocks_of(a.blocks.keys, a.k.dims[1])) - 1;
  lists.query_ends = static_cast<const int32_t*>(a.blocks.queries.ends.data);
  lists.key_ends = static_cast<const int32_t*>(a.blocks.keys.ends.data);
  return lists;
}

// The requirements of kernels for lists of blocks of at most 64 keys, and of at most 64 queries or of 128.
inline std::optional<Refusal> why_not_cuts(const AttentionArgs& a) {
  constexpr int64_t kMost = 64;
  if (!a.blocks.keys.defined()) return Refusal::arguments("no lists of key blocks that are cut");
  if (a.blocks.keys.most > kMost || (a.blocks.queries.defined() && a.blocks.queries.most > kMost))
    return Refusal::arguments("blocks of more than 64 tokens");
  return std::nullopt;
}

}  // namespace tachy::ops::flash
