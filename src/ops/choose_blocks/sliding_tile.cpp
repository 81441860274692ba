// The lists of a window that slides over a video's grid.
#include <algorithm>
#include <compare>
#include <cstdlib>

#include "ops/choose_blocks/choose_blocks.h"

namespace tachy::ops {
namespace {

using Three = std::array<int64_t, 3>;

void check_window(const TileWindow& w) {
  int64_t tokens = 1;
  for (size_t i = 0; i < 3; ++i) {
    require(w.grid[i] >= 1 && w.grid[i] <= (1 << 20),
            "sliding_tile: expected 1 to 2^20 tokens along axis {}, got {}", i, w.grid[i]);
    tokens *= w.grid[i];
  }
  require(tokens < (int64_t{1} << 31), "sliding_tile: expected fewer than 2^31 tokens, got {}", tokens);
  require(w.place.empty() || static_cast<int64_t>(w.place.size()) == tokens,
          "sliding_tile: expected {} places, got {}", tokens, w.place.size());
  for (const int32_t place : w.place)
    require(place >= 0 && place < tokens, "sliding_tile: expected places in [0, {}), got {}", tokens, place);
  const int64_t blocks = chosen_blocks(tokens);
  require(w.keep >= 1 && w.keep <= blocks, "sliding_tile: expected to keep 1 to {} blocks, got {}", blocks,
          w.keep);
}

// The middle of each block as a fraction of the grid, in units of 2^-20.
std::vector<Three> middles_of(const TileWindow& w) {
  const auto& [frames, rows, columns] = w.grid;
  const int64_t tokens = frames * rows * columns;
  std::vector<Three> sums(static_cast<size_t>(chosen_blocks(tokens)), Three{});
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t place = w.place.empty() ? token : w.place[static_cast<size_t>(token)];
    Three& sum = sums[static_cast<size_t>(place / kChosenTokens)];
    sum[0] += token / (rows * columns), sum[1] += token / columns % rows, sum[2] += token % columns;
  }
  for (size_t block = 0; block < sums.size(); ++block) {
    // Number of the block's tokens.
    const int64_t count = std::min(kChosenTokens, tokens - static_cast<int64_t>(block) * kChosenTokens);
    for (size_t i = 0; i < 3; ++i) sums[block][i] = (sums[block][i] << 20) / (count * w.grid[i]);
  }
  return sums;
}

}  // namespace

std::vector<int32_t> sliding_tile_blocks(const TileWindow& w) {
  check_window(w);
  const std::vector<Three> middles = middles_of(w);
  struct Near {
    bool other;  // whether it is another block than the list's own
    int64_t most, sum;
    int32_t block;
    auto operator<=>(const Near&) const = default;
  };
  std::vector<int32_t> lists;
  std::vector<Near> near(middles.size());
  for (size_t query = 0; query < middles.size(); ++query) {
    for (size_t key = 0; key < middles.size(); ++key) {
      near[key] = {key != query, 0, 0, static_cast<int32_t>(key)};
      for (size_t i = 0; i < 3; ++i) {
        const int64_t apart = std::abs(middles[query][i] - middles[key][i]);
        near[key].most = std::max(near[key].most, apart), near[key].sum += apart;
      }
    }
    std::nth_element(near.begin(), near.begin() + (w.keep - 1), near.end());
    const size_t begin = lists.size();
    for (int64_t i = 0; i < w.keep; ++i) lists.push_back(near[static_cast<size_t>(i)].block);
    std::sort(lists.begin() + static_cast<std::ptrdiff_t>(begin), lists.end());
  }
  return lists;
}

}  // namespace tachy::ops
