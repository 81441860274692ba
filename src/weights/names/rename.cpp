// The mappings are tables of parts of names. A rule replaces a leading part that ends at a dot or at the end
// of the name; the rest (.weight, .bias) is kept. Indices of blocks are kept, except in the VAE 2.1 decoder:
// the original's flat list has index b·4+r, where r = 0, 1, 2 are the residual blocks and r = 3 is the
// upsampler of stage b.
#include "weights/names/rename.h"

#include <fmt/format.h>

#include <optional>

namespace tachy {
namespace {

struct Rule {
  std::string_view from, to;
};

// Returns `name` with its leading part replaced, or nothing if no rule fits.
template <size_t N>
std::optional<std::string> apply(const Rule (&rules)[N], std::string_view name) {
  for (const auto& [from, to] : rules) {
    if (name.starts_with(from) && (name.size() == from.size() || name[from.size()] == '.'))
      return std::string(to) + std::string(name.substr(from.size()));
  }
  return std::nullopt;
}

// Applies the rules in the other direction.
template <size_t N>
std::optional<std::string> apply_back(const Rule (&rules)[N], std::string_view name) {
  for (const auto& [to, from] : rules) {
    if (name.starts_with(from) && (name.size() == from.size() || name[from.size()] == '.'))
      return std::string(to) + std::string(name.substr(from.size()));
  }
  return std::nullopt;
}

// Removes "piece." from the front of `name`.
bool take_piece(std::string_view& name, std::string_view piece) {
  if (!name.starts_with(piece) || name.size() <= piece.size() || name[piece.size()] != '.') return false;
  name.remove_prefix(piece.size() + 1);
  return true;
}

// Removes "12." from the front of `name`.
std::optional<int> take_index(std::string_view& name) {
  size_t digits = 0;
  int value = 0;
  while (digits < name.size() && digits < 5 && name[digits] >= '0' && name[digits] <= '9')
    value = value * 10 + (name[digits++] - '0');
  if (digits == 0 || digits >= name.size() || name[digits] != '.' || (digits > 1 && name[0] == '0'))
    return std::nullopt;
  name.remove_prefix(digits + 1);
  return value;
}

constexpr Rule kDitTop[] = {
    {"text_embedding.0", "condition_embedder.text_embedder.linear_1"},
    {"text_embedding.2", "condition_embedder.text_embedder.linear_2"},
    {"time_embedding.0", "condition_embedder.time_embedder.linear_1"},
    {"time_embedding.2", "condition_embedder.time_embedder.linear_2"},
    {"time_projection.1", "condition_embedder.time_proj"},
    {"img_emb.proj.0", "condition_embedder.image_embedder.norm1"},
    {"img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"},
    {"img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"},
    {"img_emb.proj.4", "condition_embedder.image_embedder.norm2"},
    {"img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"},
    {"head.head", "proj_out"},
    {"head.modulation", "scale_shift_table"},
};
constexpr Rule kDitBlock[] = {
    {"modulation", "scale_shift_table"},
    {"self_attn.q", "attn1.to_q"},
    {"self_attn.k", "attn1.to_k"},
    {"self_attn.v", "attn1.to_v"},
    {"self_attn.o", "attn1.to_out.0"},
    {"self_attn.attn_op.local_attn.proj_l", "attn1.proj_l"},  // in TurboDiffusion's files
    {"self_attn.norm_q", "attn1.norm_q"},
    {"self_attn.norm_k", "attn1.norm_k"},
    {"cross_attn.q", "attn2.to_q"},
    {"cross_attn.k", "attn2.to_k"},
    {"cross_attn.v", "attn2.to_v"},
    {"cross_attn.o", "attn2.to_out.0"},
    {"cross_attn.norm_q", "attn2.norm_q"},
    {"cross_attn.norm_k", "attn2.norm_k"},
    {"cross_attn.k_img", "attn2.add_k_proj"},
    {"cross_attn.v_img", "attn2.add_v_proj"},
    {"cross_attn.norm_k_img", "attn2.norm_added_k"},
    {"norm3", "norm2"},  // the cross-attention norm, third in the original, second in diffusers
    {"ffn.0", "ffn.net.0.proj"},
    {"ffn.2", "ffn.net.2"},
    {"before_proj", "proj_in"},  // in VACE's control blocks
    {"after_proj", "proj_out"},
};
constexpr std::string_view kDitBlocks[] = {"blocks", "vace_blocks"};

constexpr Rule kUmt5Top[] = {{"token_embedding", "shared"}, {"norm", "encoder.final_layer_norm"}};
constexpr Rule kUmt5Block[] = {
    {"norm1", "layer.0.layer_norm"},
    {"attn.q", "layer.0.SelfAttention.q"},
    {"attn.k", "layer.0.SelfAttention.k"},
    {"attn.v", "layer.0.SelfAttention.v"},
    {"attn.o", "layer.0.SelfAttention.o"},
    {"pos_embedding.embedding", "layer.0.SelfAttention.relative_attention_bias"},
    {"norm2", "layer.1.layer_norm"},
    {"ffn.gate.0", "layer.1.DenseReluDense.wi_0"},
    {"ffn.fc1", "layer.1.DenseReluDense.wi_1"},
    {"ffn.fc2", "layer.1.DenseReluDense.wo"},
};

constexpr Rule kUmt5GgufTop[] = {{"token_embd", "shared"}, {"enc.output_norm", "encoder.final_layer_norm"}};
constexpr Rule kUmt5GgufBlock[] = {
    {"attn_norm", "layer.0.layer_norm"},
    {"attn_q", "layer.0.SelfAttention.q"},
    {"attn_k", "layer.0.SelfAttention.k"},
    {"attn_v", "layer.0.SelfAttention.v"},
    {"attn_o", "layer.0.SelfAttention.o"},
    {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
    {"ffn_norm", "layer.1.layer_norm"},
    {"ffn_gate", "layer.1.DenseReluDense.wi_0"},
    {"ffn_up", "layer.1.DenseReluDense.wi_1"},
    {"ffn_down", "layer.1.DenseReluDense.wo"},
};

constexpr Rule kVaeTop[] = {{"conv1", "quant_conv"}, {"conv2", "post_quant_conv"}};
constexpr Rule kVaeCoder[] = {
    {"conv1", "conv_in"},
    {"middle.1", "mid_block.attentions.0"},
    {"head.0", "norm_out"},
    {"head.2", "conv_out"},
};
constexpr Rule kVaeResidual[] = {
    {"residual.0", "norm1"}, {"residual.2", "conv1"},       {"residual.3", "norm2"},
    {"residual.6", "conv2"}, {"shortcut", "conv_shortcut"},
};

bool is_resample(std::string_view rest) {
  return rest.starts_with("resample.1.") || rest.starts_with("time_conv.");
}

// Maps the rest of a VAE 2.1 name after "encoder.downsamples." or "decoder.upsamples.".
std::optional<std::string> vae21_stage(std::string_view rest, bool encoder) {
  const auto index = take_index(rest);
  if (!index) return std::nullopt;
  const auto residual = apply(kVaeResidual, rest);
  if (!residual && !is_resample(rest)) return std::nullopt;
  const std::string tail = residual.value_or(std::string(rest));
  if (encoder) return fmt::format("down_blocks.{}.{}", *index, tail);
  const int stage = *index / 4, place = *index % 4;
  if (residual.has_value() != (place < 3)) return std::nullopt;
  return residual ? fmt::format("up_blocks.{}.resnets.{}.{}", stage, place, tail)
                  : fmt::format("up_blocks.{}.upsamplers.0.{}", stage, tail);
}

// Does the same for VAE 2.2, where every stage has its own list.
std::optional<std::string> vae22_stage(std::string_view rest, bool encoder) {
  const auto stage = take_index(rest);
  if (!stage || !take_piece(rest, encoder ? "downsamples" : "upsamples")) return std::nullopt;
  const auto place = take_index(rest);
  if (!place) return std::nullopt;
  const std::string_view blocks = encoder ? "down_blocks" : "up_blocks";
  if (const auto residual = apply(kVaeResidual, rest))
    return fmt::format("{}.{}.resnets.{}.{}", blocks, *stage, *place, *residual);
  if (!is_resample(rest)) return std::nullopt;
  return fmt::format("{}.{}.{}.{}", blocks, *stage, encoder ? "downsampler" : "upsampler", rest);
}

using StageMap = std::optional<std::string> (*)(std::string_view rest, bool encoder);

std::string vae_from_original(std::string_view name, StageMap stage_map) {
  if (const auto top = apply(kVaeTop, name)) return *top;
  std::string_view rest = name;
  const bool encoder = take_piece(rest, "encoder");
  if (!encoder && !take_piece(rest, "decoder")) return std::string(name);
  const std::string coder = encoder ? "encoder." : "decoder.";
  if (const auto mapped = apply(kVaeCoder, rest)) return coder + *mapped;
  for (const auto& [from, to] : {Rule{"middle.0", "0"}, Rule{"middle.2", "1"}}) {
    std::string_view inner = rest;
    if (!take_piece(inner, from)) continue;
    if (const auto residual = apply(kVaeResidual, inner))
      return fmt::format("{}mid_block.resnets.{}.{}", coder, to, *residual);
  }
  if (take_piece(rest, encoder ? "downsamples" : "upsamples")) {
    if (const auto mapped = stage_map(rest, encoder)) return coder + *mapped;
  }
  return std::string(name);
}

template <size_t Top, size_t Block>
std::string umt5_map(std::string_view name, const Rule (&top_rules)[Top], std::string_view blocks,
                     const Rule (&block_rules)[Block]) {
  if (const auto top = apply(top_rules, name)) return *top;
  std::string_view rest = name;
  if (!take_piece(rest, blocks)) return std::string(name);
  const auto index = take_index(rest);
  const auto mapped = index ? apply(block_rules, rest) : std::nullopt;
  return mapped ? fmt::format("encoder.block.{}.{}", *index, *mapped) : std::string(name);
}

}  // namespace

std::string dit_from_original(std::string_view name) {
  if (const auto top = apply(kDitTop, name)) return *top;
  for (const std::string_view blocks : kDitBlocks) {
    std::string_view rest = name;
    if (!take_piece(rest, blocks)) continue;
    const auto index = take_index(rest);
    const auto mapped = index ? apply(kDitBlock, rest) : std::nullopt;
    if (mapped) return fmt::format("{}.{}.{}", blocks, *index, *mapped);
  }
  return std::string(name);
}

std::string dit_to_original(std::string_view name) {
  if (const auto top = apply_back(kDitTop, name)) return *top;
  for (const std::string_view blocks : kDitBlocks) {
    std::string_view rest = name;
    if (!take_piece(rest, blocks)) continue;
    const auto index = take_index(rest);
    const auto mapped = index ? apply_back(kDitBlock, rest) : std::nullopt;
    if (mapped) return fmt::format("{}.{}.{}", blocks, *index, *mapped);
  }
  return std::string(name);
}

std::string umt5_to_original(std::string_view name) {
  if (const auto top = apply_back(kUmt5Top, name)) return *top;
  std::string_view rest = name;
  if (!take_piece(rest, "encoder") || !take_piece(rest, "block")) return std::string(name);
  const auto index = take_index(rest);
  const auto mapped = index ? apply_back(kUmt5Block, rest) : std::nullopt;
  return mapped ? fmt::format("blocks.{}.{}", *index, *mapped) : std::string(name);
}

std::string umt5_from_original(std::string_view name) {
  return umt5_map(name, kUmt5Top, "blocks", kUmt5Block);
}

std::string umt5_from_gguf(std::string_view name) {
  return umt5_map(name, kUmt5GgufTop, "enc.blk", kUmt5GgufBlock);
}

std::string vae21_from_original(std::string_view name) { return vae_from_original(name, vae21_stage); }
std::string vae22_from_original(std::string_view name) { return vae_from_original(name, vae22_stage); }

}  // namespace tachy
