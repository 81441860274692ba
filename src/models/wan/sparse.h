// Block-sparse self-attention of a Wan transformer: each block of 128 queries attends to some of the blocks
// of 128 keys. Tokens are put in an order in which a block is a compact piece of the video. They are
// reordered only once, outside of all transformer blocks: patches and the head's output on their way
// (ops/patchify's `place`), while rope tables and rows of timesteps are made in this order. Nothing else in a
// transformer depends on the place of a token.
//
// For this order, frames and rows are cut into nearly equal parts of about five. The tokens of one part of
// frames and one part of rows form a rod over all columns, column after column, so any 128 neighbours in a
// rod are about 5 x 5 x 5 tokens. Rods run to and fro, and each begins next to the end of the last one. So a
// block that spans two rods is compact, too, and the grid need not be divisible by anything
// (bench/notes/sparse_attention.md compares other orders).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/params.h"
#include "ops/attention/attention.h"

namespace tachy {

// Returns the position of each token of a grid: that of frame t, row h and column w is at places[(t·rows +
// h)·columns + w].
std::vector<int32_t> compact_places(int64_t frames, int64_t rows, int64_t columns);

// How the key blocks are picked; see ops/choose_blocks.
enum class KeyChooser {
  top_k,         // by the products of mean queries and mean keys, newly for each head and transformer block
  sliding_tile,  // the nearest ones in the video, the same throughout a run
  trained,       // as the model was trained (WanConfig::trained), in blocks of its own sizes
};
KeyChooser parse_key_chooser(std::string_view name);  // "top-k", "sliding-tile" or "trained"

struct WanSparse {
  double share = 0;  // share of the blocks of keys, 0 to 1
  KeyChooser chooser = KeyChooser::top_k;
};

struct WanConfig;
struct WanGrid;

// The keys to which self-attention attends: all, unless one of the first two members is set.
struct WanKeys {
  int64_t keep = 0;                // so many blocks, chosen by their means
  ops::BlockLists lists;           // these blocks, for all heads: [1, 1, blocks, n] and [1, 1, blocks]
  bool few_in_eight_bits = false;  // AttentionArgs::eight_bits_of_few
  // Set where a branch attends as the model was trained, to `keep` of these blocks.
  bool trained = false;
  ops::BlockCuts query_blocks, key_blocks;
  Tensor
      query_block_of;  // [tokens] i32: in which of query_blocks a token lies; undefined if they are not cut

  bool all() const { return keep == 0 && !lists.defined(); }
  // Returns lists for q and k [B, tokens, heads, D]. If they are chosen here, they are in the stream's arena.
  ops::BlockLists for_heads(const Tensor& q, const Tensor& k, Stream& stream) const;
};

// The order in which a run's tokens lie: rods, cubes or, if empty, the video's own.
std::vector<int32_t> places_for(const WanSparse& sparse, const WanConfig& config, int64_t frames,
                                int64_t rows, int64_t columns);
// Cubes of 4x4x4 tokens, one after the other; those at an end of the grid are smaller. A cube's tokens lie together,
// in the video's order. `ends` gets the end of each cube.
std::vector<int32_t> cube_places(int64_t frames, int64_t rows, int64_t columns, std::vector<int32_t>& ends);

// Returns the number of blocks nearest to `share` of all blocks of `tokens` tokens, but at least one.
int64_t kept_blocks(double share, int64_t tokens);
// Puts the lists that all steps share into `store`.
WanKeys make_keys(const WanSparse& sparse, const WanConfig& config, const WanGrid& grid,
                  nn::ParamStore& store);

}  // namespace tachy
