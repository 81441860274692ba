// Ranges of keys and lists of their blocks in the form that kernels take: attention.h's KeyRange and
// BlockLists without tensors.
#pragma once

#include <algorithm>
#include <climits>

#include "device/numeric.cuh"
#include "ops/attention/attention.h"

namespace tachy::ops::flash {

struct Strides {
  int64_t batch = 0, row = 0, head = 0;  // in elements
};
inline Strides strides_of(const Tensor& t) { return {t.strides[0], t.strides[1], t.strides[2]}; }

struct Keys {
  const void *k = nullptr, *v = nullptr;
  Strides ks, vs;
  const float* key_bias = nullptr;  // [B, Lk] or null
  int64_t key_bias_batch = 0;
  const int32_t* length = nullptr;  // if null, all lk keys exist
  int lk = 0, offset = 0, block = 1, window = 0;
  bool causal = false;

  __device__ __forceinline__ int present() const {
    return length ? max(0, min(lk, static_cast<int>(*length))) : lk;
  }
};

// How many keys (always the first ones) query i sees under a causal mask, regardless of how many exist.
__device__ __forceinline__ int causal_keys(int i, int offset, int block) {
  const int last = i + offset;
  if (block == 1) return last + 1;
  return last < 0 ? 0 : static_cast<int>(min(int64_t{last / block + 1} * block, int64_t{INT_MAX}));
}

// The first key that query i sees under a causal mask with a window, or 0 without a window.
__device__ __forceinline__ int window_start(int i, int offset, int window) {
  return window == 0 ? 0 : max(0, i + offset - window + 1);
}

inline Keys keys_of(const KeyRange& r) {
  Keys keys{.k = r.k.data, .v = r.v.data, .ks = strides_of(r.k), .vs = strides_of(r.v)};
  if (r.key_bias.defined())
    keys.key_bias = static_cast<const float*>(r.key_bias.data), keys.key_bias_batch = r.key_bias.strides[0];
  if (r.length.defined()) keys.length = static_cast<const int32_t*>(r.length.data);
  keys.lk = static_cast<int>(r.k.dims[1]), keys.causal = r.causal;
  keys.offset = static_cast<int>(r.causal_offset), keys.block = static_cast<int>(r.causal_block);
  keys.window = static_cast<int>(std::min<int64_t>(r.window, 1 << 30));
  return keys;
}

struct KeyList {
  Keys ranges[1 + KeyRanges::kMost];
  int count = 0;
};
inline KeyList key_list(const AttentionArgs& a) {
  KeyList list;
  for (int i = 0; i < a.ranges(); ++i) list.ranges[list.count++] = keys_of(a.range(i));
  return list;
}

// Whatever the lists hold, no count or block returned from here is out of range.
struct Lists {
  const int32_t *indices = nullptr, *counts = nullptr;  // null for all keys
  Strides is, cs;
  int capacity = 0, last = 0;  // index of the last block of keys

  __device__ __forceinline__ int count(int64_t b, int64_t head, int64_t query_block) const {
    return max(0, min(capacity, counts[b * cs.batch + head * cs.head + query_block * cs.row]));
  }
  __device__ __forceinline__ const int32_t* list(int64_t b, int64_t head, int64_t query_block) const {
    return indices + b * is.batch + head * is.head + query_block * is.row;
  }
  __device__ __forceinline__ int block(const int32_t* list, int i) const {
    return max(0, min(last, __ldg(list + i)));
  }
};

inline Lists lists_of(const AttentionArgs& a) {
  Lists lists;
  if (!a.blocks.defined()) return lists;
  const Tensor &indices = a.blocks.indices, &counts = a.blocks.counts;
  // One list may serve the whole batch.
  const auto strides = [](const Tensor& t) {
    return Strides{t.dims[0] > 1 ? t.strides[0] : 0, t.strides[2], t.strides[1]};
  };
  lists.indices = static_cast<const int32_t*>(indices.data), lists.is = strides(indices);
  lists.counts = static_cast<const int32_t*>(counts.data), lists.cs = strides(counts);
  lists.capacity = static_cast<int>(indices.dims[3]);
  lists.last = static_cast<int>(BlockLists::blocks_of(a.k.dims[1])) - 1;
  return lists;
}

}  // namespace tachy::ops::flash
