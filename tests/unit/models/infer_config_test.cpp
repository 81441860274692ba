// The options of the published models are inferred from shapes and compared with the configs of diffusers and
// transformers (tests/golden/weights/make.py).
#include "models/wan/infer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/umt5/umt5_config.h"
#include "models/wan_vae/vae_config.h"
#include "shapes.h"

namespace tachy {
namespace {

using test::golden_weights;
using test::listed;
using test::Shapes;
using test::source_of;
using testing::HasSubstr;

struct Published {
  std::string name;
  nlohmann::json config;
  Shapes shapes;
};

std::vector<Published> published() {
  const auto json = nlohmann::json::parse(std::ifstream(golden_weights("wan_shapes.json")));
  std::vector<Published> out;
  for (const auto& [name, model] : json.items()) {
    Published p{name, model.at("config"), {}};
    for (const auto& [tensor, dims] : model.at("tensors").items()) {
      p.shapes[tensor] = dims.get<std::vector<int64_t>>();
      if (!tensor.starts_with("blocks.0.")) continue;
      for (int i = 1; i < p.config.at("num_layers").get<int>(); ++i)
        p.shapes["blocks." + std::to_string(i) + tensor.substr(8)] = p.shapes[tensor];
    }
    out.push_back(std::move(p));
  }
  return out;
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "(no error)";
}

TEST(InferConfig, EveryOptionOfThePublishedTransformers) {
  const auto models = published();
  ASSERT_EQ(models.size(), 7u);
  for (const Published& model : models) {
    const auto source = source_of(model.shapes);
    const WanConfig want = WanConfig::from_json(model.config);
    EXPECT_TRUE(infer_wan_config(*source, Sinusoid::diffusers) == want) << model.name;
    EXPECT_NO_THROW(check_wan_config(want, *source)) << model.name;
    EXPECT_EQ(infer_wan_config(*source, Sinusoid::original).sinusoid, Sinusoid::original);
  }
}

TEST(InferConfig, AConfigThatContradictsTheTensorsIsRefused) {
  const Published model = published().front();
  const auto source = source_of(model.shapes);
  const WanConfig right = WanConfig::from_json(model.config);
  using C = WanConfig;
  const std::pair<int64_t C::*, const char*> options[] = {{&C::num_heads, "width"},
                                                          {&C::head_dim, "width"},
                                                          {&C::in_channels, "in_channels"},
                                                          {&C::out_channels, "out_channels"},
                                                          {&C::patch_t, "patch_size"},
                                                          {&C::patch_h, "patch_size"},
                                                          {&C::patch_w, "patch_size"},
                                                          {&C::text_dim, "text_dim"},
                                                          {&C::freq_dim, "freq_dim"},
                                                          {&C::ffn_dim, "ffn_dim"},
                                                          {&C::num_layers, "num_layers"},
                                                          {&C::image_dim, "image_dim"},
                                                          {&C::pos_embed_seq_len, "pos_embed_seq_len"}};
  for (const auto& [option, name] : options) {
    WanConfig wrong = right;
    wrong.*option += 2;
    EXPECT_THAT(refusal([&] { check_wan_config(wrong, *source); }), HasSubstr(name));
  }
  WanConfig wrong = right;
  wrong.cross_attn_norm = !wrong.cross_attn_norm;
  EXPECT_THAT(refusal([&] { check_wan_config(wrong, *source); }), HasSubstr("cross_attn_norm"));
}

TEST(InferConfig, WhatCannotBeToldIsSaid) {
  const auto refuse = [](const std::function<void(Shapes&)>& edit, const std::string& reason) {
    Shapes shapes = published().back().shapes;
    edit(shapes);
    EXPECT_THAT(refusal([&] { infer_wan_config(*source_of(shapes), Sinusoid::original); }),
                HasSubstr(reason));
  };
  refuse([](Shapes& s) { s["patch_embedding.weight"][0] = s["blocks.0.attn1.norm_q.weight"][0] = 192; },
         "number of heads");
  refuse([](Shapes& s) { s["blocks.0.attn1.norm_q.weight"] = {128}; }, "one norm over all heads");
  refuse([](Shapes& s) { s.erase("blocks.0.attn1.norm_q.weight"); }, "blocks.0.attn1.norm_q.weight");
  refuse([](Shapes& s) { s.erase("patch_embedding.weight"); }, "expected a Wan transformer");
  refuse(
      [](Shapes& s) {
        s = {{"diffusion_model.vace_blocks.0.self_attn.q.lora_down.weight", {4, 24}}};
      },
      "this is an adapter (LoRA) and no model");
  refuse([](Shapes& s) { s["patch_embedding.weight"].pop_back(); }, "expected 5 dimensions, got 4");
  refuse([](Shapes& s) { s["patch_embedding.weight"][0] = -128; }, "expected 2 to");
  refuse([](Shapes& s) { s["patch_embedding.weight"][2] = 0; }, "patch_size is 0");
  refuse([](Shapes& s) { s["proj_out.weight"][0] += 1; }, "multiple of");
  refuse([](Shapes& s) { s["blocks.7.ffn.net.0.proj.weight"] = {1}; }, "block 7 is there");
  refuse([](Shapes& s) { s["vace_blocks.0.attn1.to_q.weight"] = {1}; }, "vace_patch_embedding.weight");
  refuse([](Shapes& s) { s["face_adapter.fuser_blocks.0.k_norm.weight"] = {1}; }, "Wan-Animate");
}

// The published VACE models: 1.3B has 15 control blocks, 14B has 8.
TEST(InferConfig, ControlBlocksAreSpreadEvenly) {
  for (const auto& [file, blocks, step] :
       {std::tuple{"dit_t2v_1_3b.txt", 15, 2}, {"dit_t2v_1_3b.txt", 6, 5}}) {
    Shapes shapes = listed(file);
    const int64_t width = shapes.at("patch_embedding.weight")[0];
    shapes["vace_patch_embedding.weight"] = {width, 96, 1, 2, 2};
    for (int i = 0; i < blocks; ++i)
      shapes[fmt::format("vace_blocks.{}.attn1.to_q.weight", i)] = {width, width};
    const WanConfig c = infer_wan_config(*source_of(shapes), Sinusoid::original);
    ASSERT_EQ(c.vace.layers.size(), static_cast<size_t>(blocks));
    for (int i = 0; i < blocks; ++i) EXPECT_EQ(c.vace.layers[static_cast<size_t>(i)], i * step);
    EXPECT_EQ(c.vace.in_channels, 96);
    WanConfig wrong = c;
    wrong.vace.in_channels = 64;
    EXPECT_THAT(refusal([&] { check_wan_config(wrong, *source_of(shapes)); }), HasSubstr("vace_in_channels"));
    wrong = c, wrong.vace.layers.pop_back();
    EXPECT_THAT(refusal([&] { check_wan_config(wrong, *source_of(shapes)); }), HasSubstr("vace_layers"));
  }
}

TEST(InferConfig, TextEncoderAndVaes) {
  const Umt5Config text = Umt5Config::from_tensors(*source_of(listed("umt5_xxl.txt"))), xxl;
  EXPECT_EQ(text.vocab_size, xxl.vocab_size);
  EXPECT_EQ(text.d_model, xxl.d_model);
  EXPECT_EQ(text.d_kv, xxl.d_kv);
  EXPECT_EQ(text.d_ff, xxl.d_ff);
  EXPECT_EQ(text.num_layers, xxl.num_layers);
  EXPECT_EQ(text.num_heads, xxl.num_heads);
  EXPECT_EQ(text.num_buckets, xxl.num_buckets);
  Shapes t5 = listed("umt5_xxl.txt");  // only the first block of T5 v1.1 has a position bias
  for (int i = 1; i < 24; ++i)
    t5.erase("encoder.block." + std::to_string(i) + ".layer.0.SelfAttention.relative_attention_bias.weight");
  EXPECT_THAT(refusal([&] { Umt5Config::from_tensors(*source_of(t5)); }), HasSubstr("Wan needs umT5"));
  t5["shared.weight"] = {0, 4096};
  EXPECT_THAT(refusal([&] { Umt5Config::from_tensors(*source_of(t5)); }), HasSubstr("without values"));

  const VaeConfig vae21 = VaeConfig::from_tensors(*source_of(listed("vae21.txt")));
  EXPECT_EQ(vae21.base_dim, 96);
  EXPECT_EQ(vae21.latents_mean, VaeConfig::wan21().latents_mean);
  const VaeConfig vae22 = VaeConfig::from_tensors(*source_of(listed("vae22.txt")));
  EXPECT_EQ(vae22.z_dim, 48);
  EXPECT_EQ(vae22.decoder_base_dim, 256);
  EXPECT_EQ(vae22.latents_std, VaeConfig::wan22().latents_std);
  Shapes huge = listed("umt5_xxl.txt");
  huge["encoder.block.0.layer.1.DenseReluDense.wi_0.weight"] = {int64_t{1} << 62, 0};
  EXPECT_THAT(refusal([&] { Umt5Config::from_tensors(*source_of(huge)); }), HasSubstr("d_ff"));
  Shapes other = listed("vae21.txt");
  other["decoder.conv_in.weight"][0] = int64_t{1} << 62;
  EXPECT_THAT(refusal([&] { VaeConfig::from_tensors(*source_of(other)); }), HasSubstr("16 channels"));
  other["decoder.conv_in.weight"][1] = 8;
  EXPECT_THAT(refusal([&] { VaeConfig::from_tensors(*source_of(other)); }), HasSubstr("8 channels"));
}

}  // namespace
}  // namespace tachy
