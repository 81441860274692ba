// The result of coarse_attention: weights of the lists times the mean values, in float32 and in the order of the blocks of keys.
// A block of threads has 64 lists of a head and 128 channels.
#pragma once

#include <cstdint>

namespace tachy::ops {

constexpr int kResultThreads = 256, kResultLists = 64, kResultChannels = 128;

struct CoarseResult {
  const float* weights;  // [heads, queries, row], not yet divided by their sums
  const float* totals;   // [heads, queries], their sums
  const float* v;        // means [heads, keys, D]
  float* out;            // [B, queries, H, D]
  int queries, keys, row, d;
  int heads, first_head;  // of a batch, and the first one of this launch among those of all batches
};

// Grid: (groups of lists, groups of channels, heads). With `kPacked` D is a multiple of 4.
template <bool kPacked>
__global__ void __launch_bounds__(kResultThreads, 2) coarse_result_kernel(const CoarseResult p) {
  constexpr int kDeep = 16, kPad = 4;
  // The weights lie across, so that a thread reads those of its four lists at once.
  __shared__ __align__(16) float weights[2][kDeep][kResultLists + kPad], values[2][kDeep][kResultChannels];
  const int first_list = static_cast<int>(blockIdx.x) * kResultLists,
            first_channel = static_cast<int>(blockIdx.y) * kResultChannels;
  const int64_t head = blockIdx.z;
  const int thread = static_cast<int>(threadIdx.x);
  const float *w = p.weights + head * p.queries * p.row, *v = p.v + head * p.keys * p.d;
  // Of a tile a thread fetches four neighbouring weights of a list, and twice four channels of a value.
  const int its_list = thread / 4, its_keys = thread % 4 * 4;
  float4 next_weights, next_values[2];
  const auto fetch = [&](int start) {
    next_weights = {};
    // A row has zeros behind its last weight, up to a multiple of four.
    if (first_list + its_list < p.queries && start + its_keys < p.row)
      next_weights =
          *reinterpret_cast<const float4*>(w + int64_t{first_list + its_list} * p.row + start + its_keys);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int at = thread + n * kResultThreads, j = start + at / 32, c = first_channel + at % 32 * 4;
      const int left = p.d - c;
      const float* from = v + int64_t{j} * p.d + c;
      float4 x{};
      if (j < p.keys) {
        if (kPacked && left > 0) {
          x = *reinterpret_cast<const float4*>(from);
        } else {
          if (left > 0) x.x = from[0];
          if (left > 1) x.y = from[1];
          if (left > 2) x.z = from[2];
          if (left > 3) x.w = from[3];
        }
      }
      next_values[n] = x;
    }
  };
  const auto keep = [&](int buffer) {
    weights[buffer][its_keys][its_list] = next_weights.x,
    weights[buffer][its_keys + 1][its_list] = next_weights.y;
    weights[buffer][its_keys + 2][its_list] = next_weights.z,
                               weights[buffer][its_keys + 3][its_list] = next_weights.w;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int at = thread + n * kResultThreads;
      *reinterpret_cast<float4*>(&values[buffer][at / 32][at % 32 * 4]) = next_values[n];
    }
  };
  const int y = thread / 16 * 4, x = thread % 16 * 4;
  float sum[4][8] = {};
  fetch(0), keep(0);
  __syncthreads();
  for (int start = 0, buffer = 0; start < p.keys; start += kDeep, buffer ^= 1) {
    const bool more = start + kDeep < p.keys;
    if (more) fetch(start + kDeep);
#pragma unroll
    for (int j = 0; j < kDeep; ++j) {
      float weight[4], value[8];
      *reinterpret_cast<float4*>(weight) = *reinterpret_cast<const float4*>(&weights[buffer][j][y]);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float4*>(value + 4 * half) =
            *reinterpret_cast<const float4*>(&values[buffer][j][x + half * kResultChannels / 2]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int c = 0; c < 8; ++c) sum[i][c] = fmaf(weight[i], value[c], sum[i][c]);
    }
    if (more) keep(buffer ^ 1);
    __syncthreads();
  }
  const int64_t at = p.first_head + head, batch = at / p.heads, of_batch = at % p.heads;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int list = first_list + y + i;
    if (list >= p.queries) continue;
    const float total = p.totals[head * p.queries + list];
    float* to = p.out + ((batch * p.queries + list) * p.heads + of_batch) * p.d;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int channel = first_channel + x + c % 4 + c / 4 * kResultChannels / 2;
      if (channel < p.d) to[channel] = sum[i][c] / total;
    }
  }
}

}  // namespace tachy::ops
