// The lists of a window of tiles that slides over a video's grid.
#include <algorithm>

#include "ops/choose_blocks/choose_blocks.h"

namespace tachy::ops {
namespace {

using Three = std::array<int64_t, 3>;

struct Tiles {
  Three count;                 // along each axis
  std::vector<int64_t> first;  // token of each tile, and their number at the end
  int64_t size() const { return count[0] * count[1] * count[2]; }
  Three place(int64_t tile) const {
    return {tile / (count[1] * count[2]), tile / count[2] % count[1], tile % count[2]};
  }
};

Tiles make_tiles(const TileWindow& w) {
  Tiles tiles;
  for (size_t i = 0; i < 3; ++i) {
    require(
        w.grid[i] >= 1 && w.tile[i] >= 1 && w.window[i] >= 1 && w.window[i] % 2 == 1,
        "sliding_tile: expected a grid and a tile of at least one token along each axis and an odd window of "
        "tiles, got {}, {} and {} along axis {}",
        w.grid[i], w.tile[i], w.window[i], i);
    tiles.count[i] = (w.grid[i] + w.tile[i] - 1) / w.tile[i];
  }
  int64_t token = 0;
  for (int64_t tile = 0; tile < tiles.size(); ++tile) {
    tiles.first.push_back(token);
    const Three at = tiles.place(tile);
    int64_t tokens = 1;
    for (size_t i = 0; i < 3; ++i) tokens *= std::min(w.tile[i], w.grid[i] - at[i] * w.tile[i]);
    token += tokens;
  }
  tiles.first.push_back(token);
  return tiles;
}

// Marks the tiles that queries of `tile` see.
void mark_window(const TileWindow& w, const Tiles& tiles, int64_t tile, std::vector<char>& seen) {
  Three begin, end;
  const Three at = tiles.place(tile);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t width = std::min(w.window[i], tiles.count[i]);
    begin[i] = std::clamp<int64_t>(at[i] - w.window[i] / 2, 0, tiles.count[i] - width);
    end[i] = begin[i] + width;
  }
  for (int64_t t = begin[0]; t < end[0]; ++t)
    for (int64_t y = begin[1]; y < end[1]; ++y)
      for (int64_t x = begin[2]; x < end[2]; ++x)
        seen[static_cast<size_t>((t * tiles.count[1] + y) * tiles.count[2] + x)] = 1;
}

}  // namespace

std::vector<std::vector<int32_t>> sliding_tile_blocks(const TileWindow& w) {
  const Tiles tiles = make_tiles(w);
  const int64_t tokens = tiles.first.back(), blocks = chosen_blocks(tokens);
  // The tiles with tokens in a block: [first, last].
  const auto tile_of = [&](int64_t token) {
    return std::upper_bound(tiles.first.begin(), tiles.first.end(), token) - tiles.first.begin() - 1;
  };
  std::vector<int64_t> first, last;
  for (int64_t block = 0; block < blocks; ++block) {
    first.push_back(tile_of(block * kChosenTokens));
    last.push_back(tile_of(std::min(tokens, (block + 1) * kChosenTokens) - 1));
  }
  std::vector<std::vector<int32_t>> lists(static_cast<size_t>(blocks));
  for (size_t query = 0; query < lists.size(); ++query) {
    std::vector<char> seen(static_cast<size_t>(tiles.size()));
    for (int64_t tile = first[query]; tile <= last[query]; ++tile) mark_window(w, tiles, tile, seen);
    for (size_t key = 0; key < lists.size(); ++key)
      if (std::find(seen.begin() + first[key], seen.begin() + last[key] + 1, 1) !=
          seen.begin() + last[key] + 1)
        lists[query].push_back(static_cast<int32_t>(key));
  }
  return lists;
}

}  // namespace tachy::ops
