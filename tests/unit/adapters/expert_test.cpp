// Tests which of two experts a file is used for, and what decided that.
#include "support.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;
using enum AdapterExpert;

// The names are such as people give: those of published LoRAs, those of trainers, and words that only contain
// the letters.
TEST(ExpertNames, WholeWordsOfANameSayIt) {
  const std::vector<std::pair<AdapterExpert, std::vector<const char*>>> all = {
      {high,
       {"my_HIGH_v1",
        "HighNoise",
        "high_noise",
        "highnoise",
        "HIGHNOISE",
        "HIGHnoise_x",
        "wan22_HN",
        "follow_lora_high_noise",
        "Wan22_A14B_T2V_HIGH_Lightning_4steps_lora_250928_rank128_fp16.safetensors",
        "Wan2.2-Fun-A14B-InP-HIGH-HPS2.1",
        "high_noise_model.safetensors",
        "A14BHighNoise",
        "WAN22HIGH",
        "style_HIGH_rank64",
        "style-high-steps2000",
        "high2",
        "low_poly_HIGH",
        "high_noise_low_rank",
        "noise-high",
        "HighNoiseLoRA",
        "风格_高噪声",
        "wan.high.safetensors",
        "yellow high",
        "mylora_000002000_high_noise"}},
      {low,
       {"my-LowNoise", "wan22-I2V-LN", "wan2.2_t2v_A14b_low_noise_lora_rank64_lightx2v_4step_1217",
        "LOWNOISE", "low", "Wan2.2_Low_v2", "slow_low-noise", "低噪", "highres_low_noise",
        "high_quality_low_noise", "thigh_LOW"}},
      {unsaid, {"yellow_lora",    "slow_lora",
                "glow_lora_v2",   "flow-noise_x",
                "thigh_lora",     "highlight_lora",
                "lowrider",       "hallow",
                "knight",         "fellow-noise",
                "FLow_style",     "style_h",
                "style_L",        "NSFW-22-H-e8",
                "high_and_low",   "high_low_noise",
                "plain",          "me@home",
                "low_poly_style", "high-heels",
                "HighQuality",    "low_light_v3",
                "high rank",      "belowhigh",
                "lowvram",        "",
                "pillow_HN_LN",   "风格low"}}};
  for (const auto& [expert, names] : all)
    for (const char* name : names)
      EXPECT_STREQ(to_string(expert_in_name(name).expert), to_string(expert)) << name;
  EXPECT_EQ(expert_in_name("follow_lora_High-Noise_x").word, "High-Noise");
}

class Experts : public testing::Test {
 protected:
  using Counts = std::pair<size_t, size_t>;
  AdapterMatch match(const MadeSource& made, const std::string& path, AdapterExpert expert = unsaid) const {
    return match_adapter(made_adapter(made, path),
                         {.transformers = {{"transformer", &model_.names}, {"transformer_2", &model_.names}},
                          .expert = expert});
  }
  void expect(const MadeSource& made, const std::string& path, AdapterExpert given, Counts changes,
              AdapterExpert went, const std::string& from) const {
    const AdapterMatch all = match(made, path, given);
    EXPECT_EQ(Counts(all.parts[0].changes.size(), all.parts[1].changes.size()), changes) << path;
    EXPECT_STREQ(to_string(all.expert), to_string(went)) << path;
    EXPECT_EQ(all.expert_from, from) << path;
  }
  const Model model_;
  const MadeSource plain_ = pair_of("blocks.0.attn1.to_q");
};

TEST_F(Experts, ByOptionOrName) {
  expect(plain_, "lora.safetensors", high, {1, 0}, high, "@high");
  expect(plain_, "lora.safetensors", low, {0, 1}, low, "@low");
  expect(plain_, "lora.safetensors", both, {1, 1}, both, "@both");
  expect(plain_, "Wan22_HIGH_noise_lora.safetensors", unsaid, {1, 0}, high,
         "the word \"HIGH_noise\" in its name");
  expect(plain_, "wan2.2-low_noise.safetensors", unsaid, {0, 1}, low, "the word \"low_noise\" in its name");
  expect(plain_, "wan2.2-low_noise.safetensors", high, {1, 0}, high, "@high");
}

TEST_F(Experts, ByWhatElseTheFileSays) {
  MadeSource named = plain_;
  named.metadata["ss_output_name"] = "style-HN";
  const MadeSource renamed = named;
  expect(renamed, "a/style.safetensors", unsaid, {1, 0}, high,
         "the word \"HN\" in the name that its trainer gave it (ss_output_name)");
  expect(renamed, "a/style_low.safetensors", unsaid, {0, 1}, low, "the word \"low\" in its name");
  expect(plain_, "x/style_high_noise/adapter_model.safetensors", unsaid, {1, 0}, high,
         "the word \"high_noise\" in its folder's name");
  expect(plain_, "x/LOW/style.safetensors", unsaid, {0, 1}, low, "the word \"LOW\" in its folder's name");
  for (const char* path :
       {"follow.safetensors", "yellow_lora.safetensors", "/x/high loras/style.safetensors"}) {
    try {
      match(plain_, path);
      ADD_FAILURE() << path;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("add @high, @low or @both"));
    }
  }
}

TEST_F(Experts, ByKeys) {
  MadeSource pairs = pair_of("transformer.blocks.0.attn1.to_q");
  pairs.add("transformer_2.blocks.0.attn1.to_k.lora_A.weight", {2, 24});
  pairs.add("transformer_2.blocks.0.attn1.to_k.lora_B.weight", {24, 2});
  expect(pairs, "yellow.safetensors", unsaid, {1, 1}, both, "its keys");
  expect(pair_of("transformer_2.blocks.0.attn1.to_q"), "high.safetensors", unsaid, {0, 1}, low, "its keys");
  expect(pair_of("diffusion_model.transformer_1.blocks.0.attn1.to_q"), "a.safetensors", unsaid, {1, 0}, high,
         "its keys");
}

}  // namespace
}  // namespace tachy::test
