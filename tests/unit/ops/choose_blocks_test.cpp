// Which blocks of keys are chosen: by the means of blocks, and by a window of tiles, against a walk over all tokens.
#include "ops/choose_blocks/choose_blocks.h"

#include <limits>
#include <numeric>
#include <set>

#include "op_fixture.h"

namespace tachy {
namespace {

using Lists = std::vector<std::vector<int32_t>>;

class ChooseBlocks : public OpFixture {
 protected:
  ops::ChooseBlocksArgs args(const Tensor& q, const Tensor& k, int64_t keep, int64_t capacity) {
    const int64_t b = q.dim(0), h = q.dim(2), blocks = ops::chosen_blocks(q.dim(1));
    return {q, k, keep, blank(DType::i32, {b, h, blocks, capacity}), blank(DType::i32, {b, h, blocks})};
  }
  Lists choose(const ops::ChooseBlocksArgs& a) {
    measure_and_run([&](Stream& stream) { ops::choose_blocks(a, stream); });
    Lists lists;
    for (int64_t i = 0; i < a.counts.numel(); ++i) {
      const int32_t* list = a.indices.as<int32_t>() + i * a.indices.dim(3);
      lists.emplace_back(list, list + a.counts.as<int32_t>()[i]);
      for (int64_t j = a.counts.as<int32_t>()[i]; j < a.indices.dim(3); ++j) EXPECT_EQ(list[j], 0);
    }
    return lists;
  }
  // q of ones, so that a block of keys scores what its values are.
  Lists choose_scores(const std::vector<float>& scores, int64_t keep) {
    const auto blocks = static_cast<int64_t>(scores.size());
    const Tensor q = blank(DType::f32, {1, blocks * 128, 1, 4}),
                 k = blank(DType::f32, {1, blocks * 128, 1, 4});
    for (int64_t i = 0; i < q.numel(); ++i) {
      q.as<float>()[i] = 1;
      k.as<float>()[i] = scores[static_cast<size_t>(i / 4 / 128)];
    }
    return choose(args(q, k, keep, keep + 1));
  }
};

TEST_F(ChooseBlocks, TheHighestAndItsOwn) {
  const Lists lists = choose_scores({1, 5, 2, 4, 3}, 3);
  EXPECT_EQ(lists, (Lists{{0, 1, 3}, {1, 3, 4}, {1, 2, 3}, {1, 3, 4}, {1, 3, 4}}));
  EXPECT_EQ(choose_scores({1, 5, 2}, 1), (Lists{{0}, {1}, {2}}));
}

TEST_F(ChooseBlocks, OfEqualOnesTheFirst) {
  EXPECT_EQ(choose_scores({2, 2, 2, 2}, 2), (Lists{{0, 1}, {0, 1}, {0, 2}, {0, 3}}));
}

TEST_F(ChooseBlocks, NotANumberIsTheLowest) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_scores({nan, -7, nan, inf}, 2), (Lists{{0, 3}, {1, 3}, {2, 3}, {1, 3}}));
  EXPECT_EQ(choose_scores({nan, nan, nan}, 3), (Lists{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}));
}

TEST_F(ChooseBlocks, AgainstSortedScores) {
  const int64_t b = 2, l = 1000, h = 2, d = 12, blocks = 8, keep = 3;
  const Tensor q = random({b, l, h, d}), k = random({b, l, h, d});
  const Lists lists = choose(args(q, k, keep, keep));
  const auto mean = [&](const Tensor& t, int64_t n, int64_t head, int64_t block, int64_t c) {
    double sum = 0;
    const int64_t end = std::min(l, block * 128 + 128);
    for (int64_t i = block * 128; i < end; ++i) sum += t.as<float>()[((n * l + i) * h + head) * d + c];
    return sum / static_cast<double>(end - block * 128);
  };
  for (int64_t i = 0; i < b * h * blocks; ++i) {
    const int64_t n = i / (h * blocks), head = i / blocks % h, own = i % blocks;
    std::vector<std::pair<double, int32_t>> scores;
    for (int32_t j = 0; j < blocks; ++j) {
      double score = 0;
      for (int64_t c = 0; c < d; ++c) score += mean(q, n, head, own, c) * mean(k, n, head, j, c);
      scores.emplace_back(j == own ? -1e30 : -score, j);
    }
    std::sort(scores.begin(), scores.end());
    std::set<int32_t> want;
    for (int64_t j = 0; j < keep; ++j) want.insert(scores[static_cast<size_t>(j)].second);
    EXPECT_EQ(lists[static_cast<size_t>(i)], std::vector<int32_t>(want.begin(), want.end())) << "list " << i;
  }
}

TEST_F(ChooseBlocks, AttentionTakesItsLists) {
  const Tensor q = random({1, 400, 2, 16}), k = random({1, 400, 2, 16}), v = random({1, 400, 2, 16});
  const ops::ChooseBlocksArgs a = args(q, k, 4, 4);
  choose(a);
  Arena arena(1 << 24);
  Stream stream{.arena = &arena, .pool = &pool_};
  const Tensor dense = blank(DType::f32, {1, 400, 2, 16}), listed = blank(DType::f32, {1, 400, 2, 16});
  ops::attention({.q = q, .k = k, .v = v, .scale = 0.25f, .out = dense}, stream);
  ops::attention({.q = q, .k = k, .v = v, .scale = 0.25f, .blocks = {a.indices, a.counts}, .out = listed},
                 stream);
  for (int64_t i = 0; i < dense.numel(); ++i)
    ASSERT_NEAR(listed.as<float>()[i], dense.as<float>()[i], 3e-6) << "value " << i;
}

TEST_F(ChooseBlocks, RefusesWhatDoesNotFit) {
  const Tensor q = random({1, 300, 2, 8}), k = random({1, 300, 2, 8});
  EXPECT_THROW(choose(args(q, k, 0, 1)), Error);
  EXPECT_THROW(choose(args(q, k, 4, 4)), Error) << "there are three";
  EXPECT_THROW(choose(args(q, k, 2, 1)), Error) << "no room";
  EXPECT_THROW(choose(args(q, random({1, 299, 2, 8}), 1, 1)), Error);
  ops::ChooseBlocksArgs a = args(q, k, 2, 2);
  a.counts = blank(DType::i32, {1, 2, 2});
  EXPECT_THROW(choose(a), Error);
}

// Every pair of tokens.
Lists all_pairs(const ops::TileWindow& w) {
  std::array<int64_t, 3> tiles;
  for (size_t i = 0; i < 3; ++i) tiles[i] = (w.grid[i] + w.tile[i] - 1) / w.tile[i];
  std::vector<std::array<int64_t, 3>> tile_of;  // of each token, in their order
  for (int64_t t = 0; t < tiles[0]; ++t)
    for (int64_t y = 0; y < tiles[1]; ++y)
      for (int64_t x = 0; x < tiles[2]; ++x)
        for (int64_t i = 0; i < w.tile[0] * w.tile[1] * w.tile[2]; ++i)
          if (t * w.tile[0] + i / (w.tile[1] * w.tile[2]) < w.grid[0] &&
              y * w.tile[1] + i / w.tile[2] % w.tile[1] < w.grid[1] &&
              x * w.tile[2] + i % w.tile[2] < w.grid[2])
            tile_of.push_back({t, y, x});
  EXPECT_EQ(static_cast<int64_t>(tile_of.size()), w.grid[0] * w.grid[1] * w.grid[2]);
  std::vector<std::set<int32_t>> sets((tile_of.size() + 127) / 128);
  for (size_t q = 0; q < tile_of.size(); ++q)
    for (size_t k = 0; k < tile_of.size(); ++k) {
      bool seen = true;
      for (size_t i = 0; i < 3; ++i) {
        const int64_t half = w.window[i] / 2;
        // The window's middle stays so far from the ends as it is wide.
        const int64_t middle =
            w.window[i] >= tiles[i] ? tile_of[k][i] : std::clamp(tile_of[q][i], half, tiles[i] - 1 - half);
        seen = seen && std::abs(tile_of[k][i] - middle) <= half;
      }
      if (seen) sets[q / 128].insert(static_cast<int32_t>(k / 128));
    }
  Lists lists;
  for (const auto& set : sets) lists.emplace_back(set.begin(), set.end());
  return lists;
}

TEST(SlidingTile, IsWhatEveryPairOfTokensSays) {
  for (const ops::TileWindow& w :
       {ops::TileWindow{{4, 16, 16}, {2, 8, 8}, {1, 1, 1}},
        ops::TileWindow{{6, 16, 24}, {2, 8, 8}, {3, 1, 3}},
        ops::TileWindow{{5, 11, 13}, {2, 4, 5}, {3, 3, 1}}, ops::TileWindow{{7, 9, 10}, {3, 4, 4}, {1, 5, 3}},
        ops::TileWindow{{1, 1, 300}, {1, 1, 30}, {1, 1, 5}}})
    EXPECT_EQ(ops::sliding_tile_blocks(w), all_pairs(w)) << w.grid[0] << " frames";
}

TEST(SlidingTile, OneTileABlock) {
  // 2 x 2 x 2 tiles of 128 tokens: a window of one tile is the block itself, a wide one is everything.
  const auto own = ops::sliding_tile_blocks({{4, 16, 16}, {2, 8, 8}, {1, 1, 1}});
  ASSERT_EQ(own.size(), 8u);
  for (int32_t i = 0; i < 8; ++i) EXPECT_EQ(own[static_cast<size_t>(i)], std::vector<int32_t>{i});
  for (const auto& list : ops::sliding_tile_blocks({{4, 16, 16}, {2, 8, 8}, {3, 3, 9}}))
    EXPECT_EQ(list.size(), 8u);
  // At the ends of the grid as many as in its middle.
  for (const auto& list : ops::sliding_tile_blocks({{2, 8, 80}, {2, 8, 8}, {1, 1, 3}}))
    EXPECT_EQ(list.size(), 3u);
}

TEST(SlidingTile, RefusesWhatIsNoWindow) {
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, {2, 8, 8}, {2, 1, 1}}), Error) << "even";
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, {0, 8, 8}, {1, 1, 1}}), Error);
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 0, 16}, {2, 8, 8}, {1, 1, 1}}), Error);
}

}  // namespace
}  // namespace tachy
