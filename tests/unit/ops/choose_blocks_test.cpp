// The blocks of keys that are chosen, by the means of blocks and by a window of tiles, are compared with
// those that a walk over all tokens finds.
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
  // Here q is all ones, so that a block of keys scores the value of its keys.
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

// Computes the window in fractions, block by block, by counting without a sort how many blocks are nearer.
std::vector<int32_t> nearest(const ops::TileWindow& w) {
  const int64_t tokens = w.grid[0] * w.grid[1] * w.grid[2], blocks = ops::chosen_blocks(tokens);
  std::vector<std::array<double, 3>> middles(static_cast<size_t>(blocks));
  for (int64_t block = 0; block < blocks; ++block) {
    double count = 0;
    for (int64_t token = 0; token < tokens; ++token) {
      const int64_t place = w.place.empty() ? token : w.place[static_cast<size_t>(token)];
      if (place / 128 != block) continue;
      const int64_t at[] = {token / (w.grid[1] * w.grid[2]), token / w.grid[2] % w.grid[1],
                            token % w.grid[2]};
      for (size_t i = 0; i < 3; ++i)
        middles[static_cast<size_t>(block)][i] += static_cast<double>(at[i]) / static_cast<double>(w.grid[i]);
      ++count;
    }
    for (double& x : middles[static_cast<size_t>(block)]) x = std::floor(x / count * (1 << 20) + 1e-6);
  }
  const auto distance = [&](size_t q, size_t k) {
    std::tuple<bool, double, double, size_t> out{q != k, 0, 0, k};
    for (size_t i = 0; i < 3; ++i) {
      const double apart = std::abs(middles[q][i] - middles[k][i]);
      std::get<1>(out) = std::max(std::get<1>(out), apart), std::get<2>(out) += apart;
    }
    return out;
  };
  std::vector<int32_t> lists;
  for (size_t q = 0; q < middles.size(); ++q)
    for (size_t k = 0; k < middles.size(); ++k) {
      int64_t nearer = 0;
      for (size_t other = 0; other < middles.size(); ++other) nearer += distance(q, other) < distance(q, k);
      if (nearer < w.keep) lists.push_back(static_cast<int32_t>(k));
    }
  return lists;
}

TEST(SlidingTile, IsTheNearestBlocksOfEach) {
  for (const std::array<int64_t, 3> grid :
       {std::array<int64_t, 3>{4, 16, 16}, {6, 16, 24}, {5, 11, 13}, {7, 9, 10}, {1, 1, 300}, {1, 5, 5}}) {
    const int64_t tokens = grid[0] * grid[1] * grid[2];
    std::vector<int32_t> turned(static_cast<size_t>(tokens));  // columns before rows before frames
    int32_t next = 0;
    for (int64_t x = 0; x < grid[2]; ++x)
      for (int64_t y = 0; y < grid[1]; ++y)
        for (int64_t t = 0; t < grid[0]; ++t)
          turned[static_cast<size_t>((t * grid[1] + y) * grid[2] + x)] = next++;
    for (int64_t keep = 1; keep <= ops::chosen_blocks(tokens); keep += 2)
      for (const std::span<const int32_t> place : {std::span<const int32_t>(), {turned}}) {
        const ops::TileWindow w{grid, place, keep};
        EXPECT_EQ(ops::sliding_tile_blocks(w), nearest(w)) << grid[0] << " frames, keep " << keep;
      }
  }
}

TEST(SlidingTile, SlidesAndStaysInside) {
  // The grid is ten blocks of 2 x 8 x 8 in a row.
  std::vector<int32_t> place(1280);
  for (int32_t t = 0; t < 2; ++t)
    for (int32_t y = 0; y < 8; ++y)
      for (int32_t x = 0; x < 80; ++x)
        place[static_cast<size_t>((t * 8 + y) * 80 + x)] = x / 8 * 128 + (t * 8 + y) * 8 + x % 8;
  const auto lists = ops::sliding_tile_blocks({{2, 8, 80}, place, 3});
  ASSERT_EQ(lists.size(), 30u);
  for (int32_t block = 0; block < 10; ++block)
    for (int32_t i = 0; i < 3; ++i)
      EXPECT_EQ(lists[static_cast<size_t>(3 * block + i)], std::clamp(block, 1, 8) - 1 + i) << block;
}

TEST(SlidingTile, RefusesWhatIsNoWindow) {
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 0, 16}, {}, 1}), Error);
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, {}, 0}), Error);
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, {}, 9}), Error) << "there are eight";
  const std::vector<int32_t> few(1023), wrong(1024, 1024);
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, few, 1}), Error);
  EXPECT_THROW(ops::sliding_tile_blocks({{4, 16, 16}, wrong, 1}), Error);
}

}  // namespace
}  // namespace tachy
