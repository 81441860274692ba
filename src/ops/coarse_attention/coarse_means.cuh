// The means of blocks of tokens, for coarse_attention: each tensor is read once. A thread has kPack neighbouring
// channels of a block and adds its tokens in float64, in their order.
#pragma once

#include <cstdint>

#include "device/token_span.cuh"
#include "device/vec.cuh"
#include "ops/coarse_attention/coarse_attention.h"

namespace tachy::ops {

constexpr int kMeanThreads = 128, kMeanTensors = 3;

struct CoarseMeans {
  struct Source {
    const void* x;
    int64_t batch, row, head;  // strides
    const int32_t* ends;       // null for blocks of kCoarseTokens
    float* means;              // [B, H, blocks, D], or [B, H, D, blocks] if `across`
    int tokens, blocks;
    bool across;
  };
  Source sources[kMeanTensors];
  int heads, d;
};

// Grid: (threads for the most blocks, tensors, batch).
template <class T, int kPack>
__global__ void __launch_bounds__(kMeanThreads) coarse_means_kernel(const CoarseMeans all) {
  const CoarseMeans::Source& p = all.sources[blockIdx.y];
  const int packs = all.d / kPack, in_block = all.heads * packs;
  const int index = static_cast<int>(blockIdx.x) * kMeanThreads + static_cast<int>(threadIdx.x);
  const int block = index / in_block, head = index % in_block / packs, c = index % packs * kPack;
  if (block >= p.blocks) return;
  const int64_t b = blockIdx.z;
  const device::TokenSpan tokens =
      device::token_span(p.ends, block, p.tokens, static_cast<int>(kCoarseTokens), p.tokens);
  const int count = tokens.end - tokens.first;
  const T* from = static_cast<const T*>(p.x) + b * p.batch + tokens.first * p.row + head * p.head + c;
  double sum[kPack] = {};
  const auto add = [&](const device::Pack<T, kPack>& x) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += static_cast<double>(x.get(i));
  };
  constexpr int kAhead = 8;  // rows on their way at a time
  int t = 0;
  for (; t + kAhead <= count; t += kAhead, from += kAhead * p.row) {
    device::Pack<T, kPack> rows[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) rows[i] = device::load<T, kPack>(from + i * p.row);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) add(rows[i]);
  }
  for (; t < count; ++t, from += p.row) add(device::load<T, kPack>(from));
  float* to = p.means + (b * all.heads + head) * p.blocks * all.d;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const auto mean = static_cast<float>(sum[i] / static_cast<double>(count));
    to[p.across ? int64_t{c + i} * p.blocks + block : int64_t{block} * all.d + c + i] = mean;
  }
}

}  // namespace tachy::ops
