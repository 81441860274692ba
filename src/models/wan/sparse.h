// Block-sparse self-attention of a Wan transformer: each block of 128 queries attends to some blocks of 128 keys, in an
// order of the tokens in which a block is a compact piece of the video. The order is made once round all blocks: patches
// and the head's output are put there and back on their way (ops/patchify's `place`), rope tables and rows of timesteps
// are made in it. Nothing else in a transformer depends on where a token lies.
//
// The order: frames and rows are cut into about equal parts of about five, and the tokens of a part of frames and a part
// of rows, all columns, are a rod, column after column. 128 neighbours of a rod are about 5 x 5 x 5 tokens wherever they
// begin. Rods follow one another to and fro, each beginning beside the end of the last one, so a block that has parts of
// two is compact, too, and no grid needs to divide by anything (bench/notes/sparse_attention.md has what it is better than).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/params.h"
#include "ops/attention/attention.h"

namespace tachy {

// Where the token in frame t, row h and column w of a grid lies: places[(t·rows + h)·columns + w].
std::vector<int32_t> compact_places(int64_t frames, int64_t rows, int64_t columns);

// Who picks a block's keys; see ops/choose_blocks.
enum class KeyChooser {
  top_k,         // by the products of mean queries and mean keys, anew for each head and transformer block
  sliding_tile,  // those nearest to it in the video: the same in all of a run
};
KeyChooser parse_key_chooser(std::string_view name);  // "top-k" or "sliding-tile"

struct WanSparse {
  double share = 0;  // of the blocks of keys, 0 to 1
  KeyChooser chooser = KeyChooser::top_k;
};

struct WanGrid;

// What self-attention attends to: everything, unless one of the first two is there.
struct WanKeys {
  int64_t keep = 0;                // so many blocks, chosen by their means
  ops::BlockLists lists;           // these, of all heads: [1, 1, blocks, n] and [1, 1, blocks]
  bool few_in_eight_bits = false;  // AttentionArgs::eight_bits_of_few

  bool all() const { return keep == 0 && !lists.defined(); }
  // For q and k [B, tokens, heads, D]. Chosen lists lie in the stream's arena.
  ops::BlockLists for_heads(const Tensor& q, const Tensor& k, Stream& stream) const;
};

// How many of the blocks of so many tokens a share is: the nearest number, at least one.
int64_t kept_blocks(double share, int64_t tokens);
// Puts lists that all steps share into `store`.
WanKeys make_keys(const WanSparse& sparse, const WanGrid& grid, nn::ParamStore& store);

}  // namespace tachy
