// Tests the sizes of Matrix-Game 2's action module, from config.json and from tensors, and the actions that a
// latent frame follows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "models/wan/branches/actions/action_config.h"
#include "models/wan/infer_config.h"
#include "shapes.h"

namespace tachy {
namespace {

using testing::HasSubstr;

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

// Returns Matrix-Game 2's tensors for two layers, under diffusers' names.
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

TEST(WanActions, SizesOfThePublishedFiles) {
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
  EXPECT_THAT(error_of([&] { infer_wan_config(*test::source_of(odd), Sinusoid::original); }),
              HasSubstr("1561 columns"));
}

TEST(WanActions, ConfigOfThePublishedModels) {
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
    return error_of([&] { WanConfig::from_json(other); });
  };
  EXPECT_THAT(fails("img_hidden_size", 1024), HasSubstr("img_hidden_size 1024"));
  EXPECT_THAT(fails("qkv_bias", true), HasSubstr("qkv_bias"));
  EXPECT_THAT(fails("heads_num", 1000), HasSubstr("1000 heads"));
  EXPECT_THAT(fails("blocks", {30}), HasSubstr("blocks"));
  EXPECT_THAT(fails("sink_size", 4), HasSubstr("sink_size 4"));
}

// Latent frame 1 follows the actions of pixel frames 0 (nine times) to 3, none of which is its own last
// frame.
TEST(WanActions, ActionsThatAFrameFollows) {
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
