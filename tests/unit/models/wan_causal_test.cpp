// Causal Wan models (models/wan/causal.h) against the original repositories' own results (tests/golden/causal), and
// what of them a comparison of results does not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shapes.h"
#include "tensor/transfer.h"
#include "wan_causal_case.h"

namespace tachy {
namespace {

using test::WanCausalCase;
using testing::HasSubstr;

constexpr double kVelocityBound = 5e-6, kLatentBound = 1e-5;

template <class Body>
std::string error_of_call(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

// body(session) in a measure run and for real.
template <class Body>
void with_session(const WanCausalCase& c, Body&& body, test::PlannedRun run = {}) {
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = c.load(store);
    WanCausalCase::Session session(c, *model, store);
    body(session, !stream.measuring());
  });
  EXPECT_EQ(run.store_bytes, run.planned_store);
  EXPECT_EQ(run.arena_peak, run.arena_bytes);
}

class WanCausalGolden : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(WanCausalGolden, VelocitiesAndLatentsOfTheOriginal) {
  const auto [name, fill_only] = GetParam();
  const WanCausalCase c(name);
  with_session(c, [&](WanCausalCase::Session& session, bool real) {
    const WanCausalCase::Result result = c.rollout(session, fill_only);
    if (!real) return;
    EXPECT_LE(result.velocities, kVelocityBound) << std::stod(c.text("velocities_error"));
    EXPECT_LE(result.latents, kLatentBound) << std::stod(c.text("latents_error"));
    RecordProperty("velocities", std::to_string(result.velocities));
    std::printf("%s: velocities %.1e, latents %.1e\n", name, result.velocities, result.latents);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, WanCausalGolden,
                         testing::Combine(testing::Values("self_forcing", "universal", "short_window",
                                                          "templerun"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_fill" : "_whole");
                         });

std::vector<float> ring_of(const WanCausal& c) {
  std::vector<float> all;
  for (const Tensor& t : {c.ring.k, c.ring.v, c.mouse.k, c.mouse.v, c.keyboard.k, c.keyboard.v})
    if (t.defined()) {
      const auto values = test::values_of(t);
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

// A pass that only fills leaves the same bits as a whole one: also where the last block has an action module.
TEST(WanCausal, APassThatOnlyFillsLeavesTheSameKeys) {
  for (const char* name : {"self_forcing", "universal"}) {
    const WanCausalCase c(name);
    std::vector<float> left[2];
    for (const bool fill_only : {false, true})
      with_session(c, [&](WanCausalCase::Session& session, bool real) {
        session.begin(c.blocks[0]);
        const auto x = WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]);
        for (const Tensor& t : {session.causal.ring.k, session.causal.ring.v, session.causal.mouse.k,
                                session.causal.mouse.v, session.causal.keyboard.k, session.causal.keyboard.v})
          if (t.defined()) zero(t, session.store.stream());
        session.predict(x, c.timesteps.size(), fill_only);
        if (real) left[fill_only ? 1 : 0] = ring_of(session.causal);
      });
    EXPECT_EQ(left[0], left[1]) << name;
    EXPECT_GT(left[0].size(), 0u);
  }
}

// Attention depends on differences of positions alone: far past the 1024 positions of the published tables, and past where
// angles in float32 would be of use, a block that sees itself only predicts the same.
TEST(WanCausal, PositionsHaveNoEnd) {
  WanCausalCase c("self_forcing");
  c.window = {.frames = c.blocks[0]};
  std::vector<float> at[2];
  for (const int64_t first : {int64_t{0}, int64_t{1'000'000}})
    with_session(c, [&](WanCausalCase::Session& session, bool real) {
      session.causal.first = first;
      session.begin(c.blocks[0]);
      const auto v = session.predict(WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]), 1);
      if (real) at[first > 0 ? 1 : 0] = v;
    });
  double off = 0, most = 0;
  for (size_t i = 0; i < at[0].size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(at[1][i]) - at[0][i]));
    most = std::max(most, std::abs(static_cast<double>(at[0][i])));
  }
  EXPECT_LE(off / most, 2e-6);
  EXPECT_NE(at[0], at[1]);
}

TEST(WanCausal, FractionalTimestepsAreNotCutOff) {
  const WanCausalCase c("universal");
  ASSERT_NE(c.timesteps[1], std::floor(c.timesteps[1]));
  with_session(c, [&](WanCausalCase::Session& session, bool real) {
    session.begin(c.blocks[0]);
    const auto x = WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]);
    const auto exact = session.predict(x, 1);
    session.times =
        session.model.make_times(std::vector<double>{0, std::floor(c.timesteps[1])}, session.store);
    const auto cut = session.predict(x, 1);
    if (!real) return;
    double off = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      off = std::max(off, std::abs(static_cast<double>(exact[i]) - cut[i]));
    EXPECT_GT(off, 100 * kVelocityBound);
  });
}

TEST(WanCausal, WhatCannotBe) {
  const WanCausalCase c("universal"), plain("self_forcing");
  test::PlannedRun run;
  run([&](Stream& stream, nn::ParamStore& store) {
    if (stream.measuring()) return (void)c.load(store);
    const auto model = c.load(store);
    const auto window = [&](WanWindow w, int64_t most) {
      return error_of_call([&] { model->allocate_causal(w, most, 2, 3, store); });
    };
    EXPECT_THAT(window({.frames = 2}, 3), HasSubstr("blocks of 1 to 2 frames"));
    EXPECT_THAT(window({.frames = 4, .sinks = 2}, 3), HasSubstr("blocks of 1 to 2 frames"));
    EXPECT_THAT(window({.frames = 3, .sinks = 3}, 1), HasSubstr("3 sinks"));
    EXPECT_THAT(window({}, 1), HasSubstr("at least one frame"));
    WanCausal causal = model->allocate_causal(c.window, 3, 2, 3, store);
    const WanGrid grid = model->make_grid(3, 4, 6, store), long_grid = model->make_grid(4, 4, 6, store);
    const auto begin = [&](const WanGrid& g, const WanScript& s) {
      return error_of_call([&] { model->begin_block(causal, g, s, stream); });
    };
    const WanScript whole = c.script();
    EXPECT_THAT(begin(long_grid, whole), HasSubstr("a block of 1 to 3 frames"));
    EXPECT_THAT(begin(grid, {}), HasSubstr("expected the actions of a keyboard"));
    EXPECT_THAT(begin(grid, {.keyboard = whole.keyboard, .mouse = {}}), HasSubstr("actions of a mouse"));
    EXPECT_THAT(begin(grid, {whole.keyboard.slice(0, 0, 8), whole.mouse}), HasSubstr("9 pixel frames"));
    EXPECT_THAT(begin(grid, {whole.mouse, whole.mouse}), HasSubstr("keyboard"));
    const WanInput without{.latents = Tensor(nullptr, DType::f32, {1, 9, 3, 4, 6}), .grid = &grid};
    EXPECT_THAT(error_of_call([&] { model->forward(without, {}, stream); }), HasSubstr("follows actions"));
    EXPECT_THAT(error_of_call([&] { model->make_context(whole.mouse, 512, {}, store); }),
                HasSubstr("no text"));
  });
}

// Matrix-Game 2's tensors, of two layers, under diffusers' names.
test::Shapes published(int64_t keys, bool mouse) {
  test::Shapes s = {{"patch_embedding.weight", {1536, 36, 1, 2, 2}},
                    {"proj_out.weight", {64, 1536}},
                    {"condition_embedder.time_embedder.linear_1.weight", {1536, 256}},
                    {"condition_embedder.image_embedder.norm1.weight", {1280}}};
  for (int i = 0; i < 2; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    s[block + "attn1.to_q.weight"] = {1536, 1536};
    s[block + "attn1.norm_q.weight"] = {1536};
    s[block + "ffn.net.0.proj.weight"] = {8960, 1536};
    s[block + "norm2.weight"] = {1536};
  }
  const std::string actions = "blocks.0.action_model.";
  s[actions + "keyboard_embed.0.weight"] = {128, keys};
  s[actions + "mouse_attn_q.weight"] = {1024, 1536};
  if (!mouse) return s;
  s[actions + "t_qkv.weight"] = {3072, 1024};
  s[actions + "mouse_mlp.0.weight"] = {1024, 1560};
  return s;
}

TEST(WanCausal, SizesOfThePublishedFiles) {
  for (const auto& [keys, mouse] : {std::pair<int64_t, bool>{4, true}, {2, true}, {7, false}}) {
    const WanConfig c = infer_wan_config(*test::source_of(published(keys, mouse)), Sinusoid::original);
    EXPECT_EQ(c.text_dim, 0);
    EXPECT_EQ(c.image_dim, 1280);
    EXPECT_FALSE(c.image_branch());
    WanActionConfig want{.blocks = {0}, .keyboard_dim = keys, .mouse_dim = mouse ? 2 : 0};
    EXPECT_EQ(c.actions, want);
    EXPECT_EQ(c.actions.needed(3), 20);
  }
  auto odd = published(4, true);
  odd["blocks.0.action_model.mouse_mlp.0.weight"] = {1024, 1561};
  EXPECT_THAT(error_of_call([&] { infer_wan_config(*test::source_of(odd), Sinusoid::original); }),
              HasSubstr("1561 columns"));
}

TEST(WanCausal, ConfigOfThePublishedModels) {
  const auto j =
      nlohmann::json::parse(R"({"dim": 1536, "ffn_dim": 8960, "num_heads": 12, "num_layers": 30, "in_dim": 36,
    "out_dim": 16, "model_type": "i2v", "local_attn_size": 4, "sink_size": 0, "action_config": {"blocks": [0, 1, 2],
    "enable_keyboard": true, "enable_mouse": true, "heads_num": 16, "hidden_size": 128, "img_hidden_size": 1536,
    "keyboard_dim_in": 2, "keyboard_hidden_dim": 1024, "mouse_dim_in": 2, "mouse_hidden_dim": 1024, "qk_norm": true,
    "qkv_bias": false, "rope_dim_list": [8, 28, 28], "rope_theta": 256, "vae_time_compression_ratio": 4,
    "windows_size": 3}})");
  const WanConfig c = WanConfig::from_json(j);
  EXPECT_EQ(c.window, 4);
  EXPECT_EQ(c.actions, (WanActionConfig{.blocks = {0, 1, 2}, .keyboard_dim = 2}));
  const auto fails = [&](const char* key, nlohmann::json value) {
    auto other = j;
    (other["action_config"].contains(key) ? other["action_config"][key] : other[key]) = std::move(value);
    return error_of_call([&] { WanConfig::from_json(other); });
  };
  EXPECT_THAT(fails("img_hidden_size", 1024), HasSubstr("img_hidden_size 1024"));
  EXPECT_THAT(fails("qkv_bias", true), HasSubstr("qkv_bias"));
  EXPECT_THAT(fails("heads_num", 1000), HasSubstr("1000 heads"));
  EXPECT_THAT(fails("blocks", {30}), HasSubstr("blocks"));
  EXPECT_THAT(fails("sink_size", 4), HasSubstr("sink_size 4"));
}

// Latent frame 1 follows the actions of pixel frames 0 (nine times) to 3, none of which is its own last one.
TEST(WanCausal, ActionsThatAFrameFollows) {
  const WanActionConfig c;
  const auto list = [&](int64_t first, int64_t frames) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < c.needed(frames); ++i) out.push_back(c.frame_of(first, i));
    return out;
  };
  EXPECT_EQ(list(0, 1), std::vector<int64_t>(12, 0));
  EXPECT_EQ(list(1, 1), (std::vector<int64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}));
  std::vector<int64_t> from_0(20), from_12(20);
  std::iota(from_0.begin(), from_0.end(), 0);
  std::iota(from_12.begin(), from_12.end(), 12);
  EXPECT_EQ(list(3, 3), from_0);
  EXPECT_EQ(list(6, 3), from_12);
}

}  // namespace
}  // namespace tachy
