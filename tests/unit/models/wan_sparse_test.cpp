// Tests block-sparse self-attention of the Wan transformer: tokens in another order give the same results,
// and a list of all blocks gives dense attention (wan_sparse_plain_test.cpp tests lists of some blocks).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "models/wan/sparse.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using Case = test::WanDitCase;

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = normal(engine);
  return out;
}

// An odd grid of 5 x 9 x 11 tokens has 495 of them, in four blocks, the last one of 111.
constexpr int64_t kFrames = 5, kHigh = 18, kWide = 22, kGridTokens = 5 * 9 * 11, kScenes = 2;

struct SparseRun {
  bool compact = false;
  std::optional<WanSparse> sparse;
  int threads = 2;
  bool rows = false;  // tokens of frame 0 have their own timestep

  // Makes a forward pass of the model of tests/golden/wan/NAME with an input of this size,
  // [B, C_out, T, H, W].
  std::vector<float> operator()(const std::string& name) const {
    const Case c(name);
    test::PlannedRun planned{.threads = threads};
    std::vector<float> y;
    planned([&](Stream& stream, nn::ParamStore& store) { y = pass(c, stream, store); });
    EXPECT_EQ(planned.planned_store, planned.store_bytes);
    EXPECT_EQ(planned.arena_bytes, planned.arena_peak);
    return y;
  }

 private:
  std::vector<float> pass(const Case& c, Stream& stream, nn::ParamStore& store) const {
    const auto model = c.load(store);
    auto x = random_values(kScenes * c.config.in_channels * kFrames * kHigh * kWide, 1);
    auto text = random_values(3 * c.config.text_dim, 2);
    const Tensor words(text.data(), DType::f32, {3, c.config.text_dim});
    std::vector<float> y(static_cast<size_t>(kScenes * c.config.out_channels * kFrames * kHigh * kWide), NAN);
    const WanGrid grid =
        model->make_grid(kFrames, kHigh, kWide, store,
                         compact ? compact_places(kFrames, kHigh / 2, kWide / 2) : std::vector<int32_t>());
    const WanContext context = model->make_context(words, 8, {}, store);
    const double timesteps[] = {700, 0};
    std::vector<int32_t> row(static_cast<size_t>(kScenes * kGridTokens), 0);
    for (int64_t b = 0; b < kScenes && rows; ++b)
      for (int64_t i = 0; i < kHigh / 2 * kWide / 2; ++i)
        row[static_cast<size_t>(b * kGridTokens + grid.place_of(i))] = 1;
    WanInput in{
        .latents = Tensor(x.data(), DType::f32, {kScenes, c.config.in_channels, kFrames, kHigh, kWide}),
        .grid = &grid,
        .times = model->make_times(timesteps, store),
        .row = Tensor(row.data(), DType::i32, {kScenes * kGridTokens}),
        .contexts = {&context, &context}};
    if (sparse) in.keys = make_keys(*sparse, c.config, grid, store);
    model->forward(in, Tensor(y.data(), DType::f32, {kScenes, c.config.out_channels, kFrames, kHigh, kWide}),
                   stream);
    return y;
  }
};

double apart(const std::vector<float>& y, const std::vector<float>& r) {
  const auto tensor = [](const std::vector<float>& v) {
    return Tensor(const_cast<float*>(v.data()), DType::f32, {static_cast<int64_t>(v.size())});
  };
  return test::error_of(tensor(y), tensor(r));
}

// The effect of rounding on models of these sizes; their float32 errors are 1e-7 to 2e-7.
constexpr double kRounding = 2e-6;

TEST(WanSparse, TokensInAnotherOrderGiveTheSame) {
  for (const char* name : {"t2v", "t2v_bf16", "plain_cross"})
    for (const bool rows : {false, true}) {
      const auto usual = SparseRun{.rows = rows}(name),
                 compact = SparseRun{.compact = true, .rows = rows}(name);
      EXPECT_LE(apart(compact, usual), kRounding) << name << (rows ? ", two timesteps" : "");
    }
  EXPECT_GT(apart(SparseRun{.rows = true}("t2v"), SparseRun{}("t2v")), 1e-3) << "the rows must matter";
}

TEST(WanSparse, AllBlocksListedIsDense) {
  const auto dense = SparseRun{}("t2v");
  for (const KeyChooser chooser : {KeyChooser::top_k, KeyChooser::sliding_tile})
    EXPECT_LE(apart(SparseRun{.compact = true, .sparse = WanSparse{1, chooser}}("t2v"), dense), kRounding);
}

TEST(WanSparse, SomeBlocksAreNotDenseAndRepeatThemselves) {
  const auto dense = SparseRun{}("t2v");
  for (const KeyChooser chooser : {KeyChooser::top_k, KeyChooser::sliding_tile}) {
    SparseRun run{.compact = true, .sparse = WanSparse{0.5, chooser}};
    const auto once = run("t2v");
    EXPECT_GT(apart(once, dense), 1e-4) << "keys are left out";
    EXPECT_LT(apart(once, dense), 1) << "but it is the same model";
    EXPECT_EQ(once, run("t2v"));
    for (run.threads = 1; run.threads <= 3; run.threads += 2)
      EXPECT_EQ(once, run("t2v")) << run.threads << " threads";
  }
}

TEST(WanSparse, KeepsTheNearestNumberOfBlocks) {
  EXPECT_EQ(kept_blocks(0.3, 32760), 77);   // of 256 blocks
  EXPECT_EQ(kept_blocks(0.5, 75600), 296);  // of 591 blocks
  EXPECT_EQ(kept_blocks(1e-9, 32760), 1);
  EXPECT_EQ(kept_blocks(1, 32760), 256);
  EXPECT_EQ(kept_blocks(0.3, 576), 2);  // of 5 blocks
  EXPECT_THROW(parse_key_chooser("topk"), Error);
}

// Every place occurs once, and blocks are compact: the mean squared distance of a block's tokens from its
// middle is 6.1 for a cube of 128 tokens, and 8 to 11 for a box of 4 x 4 x 8.
TEST(WanSparse, BlocksOfTheOrderAreCompact) {
  struct Grid {
    int64_t t, h, w;
  };
  for (const Grid g : {Grid{21, 30, 52},
                       {21, 45, 80},
                       {31, 22, 40},
                       {9, 8, 8},
                       {33, 8, 8},
                       {5, 9, 11},
                       {1, 30, 52},
                       {1, 1, 1}}) {
    const std::vector<int32_t> places = compact_places(g.t, g.h, g.w);
    const auto tokens = static_cast<size_t>(g.t * g.h * g.w);
    EXPECT_EQ(std::set<int32_t>(places.begin(), places.end()).size(), tokens);
    EXPECT_EQ(*std::max_element(places.begin(), places.end()), static_cast<int32_t>(tokens) - 1);
    const size_t blocks = (tokens + 127) / 128;
    struct Sums {
      double count = 0, x[3] = {}, squares = 0;
    };
    std::vector<Sums> sums(blocks);
    for (size_t i = 0; i < tokens; ++i) {
      Sums& s = sums[static_cast<size_t>(places[i]) / 128];
      const auto at = static_cast<int64_t>(i);
      const int64_t x[] = {at / (g.h * g.w), at / g.w % g.h, at % g.w};
      s.count += 1;
      for (size_t k = 0; k < 3; ++k)
        s.x[k] += static_cast<double>(x[k]), s.squares += static_cast<double>(x[k] * x[k]);
    }
    for (const Sums& s : sums) {
      double spread = s.squares / s.count;
      for (const double x : s.x) spread -= x * x / s.count / s.count;
      EXPECT_LT(spread, g.t == 1 ? 75 : 14) << g.t << "x" << g.h << "x" << g.w;
    }
  }
}

}  // namespace
}  // namespace tachy
