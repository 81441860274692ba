// The names of the tensors in an adapter's file. Every trainer has its own spelling, but all of them begin
// with the layer's name and end with the tensor's role:
//
//   diffusion_model.blocks.0.self_attn.q.lora_down.weight   layer …blocks.0.self_attn.q   role down
//   transformer.blocks.0.attn1.to_q.lora_B.default.weight   layer …blocks.0.attn1.to_q    role up
//   lora_unet_blocks_0_ffn_0.alpha                          layer …blocks_0_ffn_0         role alpha
#pragma once

#include <string>
#include <string_view>

namespace tachy {

enum class AdapterRole {
  none,  // the tensor is not part of an adapter
  down,
  up,
  mid,
  alpha,
  up_bias,    // added to the layer's bias, with the pair's scale
  magnitude,  // DoRA: the length of each row
  diff,       // added to the weight, or to a vector that has no other name in the layer
  diff_bias,
  diff_modulation,
  set_weight,
  hada_w1_a,
  hada_w1_b,
  hada_w2_a,
  hada_w2_b,
  lokr_w1,
  lokr_w1_a,
  lokr_w1_b,
  lokr_w2,
  lokr_w2_a,
  lokr_w2_b,
  glora_a1,
  glora_a2,
  glora_b1,
  glora_b2,
  unsupported,  // known, but not supported here
};

struct AdapterKey {
  std::string_view stem;  // the part of the key for the layer, with any prefix of the trainer
  AdapterRole role = AdapterRole::none;
  std::string_view suffix;  // the rest as the file spells it: ".lora_down.weight"
};

AdapterKey parse_adapter_key(std::string_view key);

}  // namespace tachy
