// Tests the names of trainers' tensors: where the layer ends and the role begins.
#include "adapters/adapter_key.h"

#include <gtest/gtest.h>

namespace tachy {
namespace {

using Role = AdapterRole;

TEST(AdapterKey, SplitsEveryTrainersNames) {
  const struct {
    const char* key;
    const char* stem;
    Role role;
  } cases[] = {
      {"diffusion_model.blocks.0.self_attn.q.lora_A.weight", "diffusion_model.blocks.0.self_attn.q",
       Role::down},
      {"diffusion_model.blocks.0.self_attn.q.lora_up.weight", "diffusion_model.blocks.0.self_attn.q",
       Role::up},
      {"blocks.0.ffn.0.lora_B.default.weight", "blocks.0.ffn.0", Role::up},
      {"blocks.0.ffn.0.lora_B.my-adapter_1.bias", "blocks.0.ffn.0", Role::up_bias},
      {"blocks.0.ffn.0.lora_B.bias", "blocks.0.ffn.0", Role::up_bias},
      {"lora_unet_blocks_0_cross_attn_k_img.alpha", "lora_unet_blocks_0_cross_attn_k_img", Role::alpha},
      {"transformer.blocks.0.attn1.processor.to_q_lora.down.weight",
       "transformer.blocks.0.attn1.processor.to_q", Role::down},
      {"a.lora.up.weight", "a", Role::up},
      {"a.lora_linear_layer.down.weight", "a", Role::down},
      {"a.lora_mid.weight", "a", Role::mid},
      {"a.dora_scale", "a", Role::magnitude},
      {"a.lora_magnitude_vector", "a", Role::magnitude},
      {"a.lora_magnitude_vector.default.weight", "a", Role::magnitude},
      {"a.lora_magnitude_vector.default", "a", Role::magnitude},
      {"blocks.0.diff_m", "blocks.0", Role::diff_modulation},
      {"head.head.diff", "head.head", Role::diff},
      {"head.head.diff_b", "head.head", Role::diff_bias},
      {"a.set_weight", "a", Role::set_weight},
      {"a.hada_w1_a", "a", Role::hada_w1_a},
      {"a.lokr_w2_b", "a", Role::lokr_w2_b},
      {"a.lokr_w2", "a", Role::lokr_w2},
      {"a.oft_blocks", "a", Role::unsupported},
      {"a.lora_A.default.bias", "a", Role::unsupported},
  };
  for (const auto& c : cases) {
    const AdapterKey key = parse_adapter_key(c.key);
    EXPECT_EQ(key.stem, c.stem) << c.key;
    EXPECT_EQ(key.role, c.role) << c.key;
    EXPECT_EQ(std::string(key.stem) + std::string(key.suffix), c.key);
  }
}

TEST(AdapterKey, OtherNamesAreNone) {
  for (const char* key :
       {"", ".alpha", "alpha", "blocks.0.ffn.0.weight", "lora_A.weight", ".lora_A.default.weight",
        "a.lora_A..weight", "a.lora_A.x.y.weight", "a.lora_C.weight", "a.diff_x"})
    EXPECT_EQ(parse_adapter_key(key).role, Role::none) << key;
}

}  // namespace
}  // namespace tachy
