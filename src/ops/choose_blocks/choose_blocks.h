// Chooses the blocks of keys that a block of queries attends to, in self-attention over many tokens. The
// lists have the form that block-sparse attention takes (attention.h's BlockLists), in blocks of
// kChosenTokens tokens; each list is ascending.
//
// top_k chooses from the data: the blocks whose mean key has the largest product with the block's mean query,
//   score[b, h, i, j] = mean_q[b, h, i] · mean_k[b, h, j]
// It takes `keep` of them for each head and block of queries, always including the block itself; of equal
// ones it takes the first. The means are rounded to float32; sums and scores are float64, added in the order
// of tokens and channels, so every implementation makes the same lists. A score of NaN counts as -inf.
//
// sliding_tile chooses from the grid alone: the blocks that are near in the video, as in Sliding Tile
// Attention (Zhang et al., 2025), whose tiles are the blocks here.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "tensor/stream.h"

namespace tachy::ops {

inline constexpr int64_t kChosenTokens = 128;
inline int64_t chosen_blocks(int64_t tokens) { return (tokens + kChosenTokens - 1) / kChosenTokens; }

struct ChooseBlocksArgs {
  Tensor q, k;       // [B, L, H, D] f32, inner dim contiguous, other strides free
  int64_t keep = 1;  // blocks per list, in [1, blocks], blocks = chosen_blocks(L)
  Tensor indices;    // [B, H, blocks, capacity >= keep] i32, contiguous; 0 after the first `keep`
  Tensor counts;     // [B, H, blocks] i32, contiguous; every value is `keep`
};

void choose_blocks(const ChooseBlocksArgs& args, Stream& stream);

// A window that slides over a video. For each block of queries it takes the `keep` blocks whose middles are
// nearest. The distance is the largest of the distances along the three axes, each as a fraction of the
// grid's extent, so the window has the grid's shape, and at an end of the grid it reaches further to the
// other side. Among equal distances the smaller sum of distances counts, then the order.
struct TileWindow {
  std::array<int64_t, 3> grid;          // size in tokens: frames, rows, columns
  std::span<const int32_t> place = {};  // where each token lies; if empty, tokens are in this order
  int64_t keep = 1;                     // blocks per list, in [1, blocks]
};

// Lists [blocks, keep], each ascending and including the block itself. They are the same for all heads and on
// every device, so they are made on the host, in integers.
std::vector<int32_t> sliding_tile_blocks(const TileWindow& window);

}  // namespace tachy::ops
