#include "models/wan/wan_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

void read_patch(const nlohmann::json& j, WanConfig& c) {
  const auto patch = json_ints(j, "patch_size", 1, 16, 3);
  if (patch.empty()) return;
  check(patch.size() == 3, ErrorCode::corrupt, "wan: patch_size needs 3 numbers, got {}", patch.size());
  c.patch_t = patch[0], c.patch_h = patch[1], c.patch_w = patch[2];
}

WanConfig from_diffusers(const nlohmann::json& j) {
  WanConfig c;
  read_patch(j, c);
  c.num_heads = json_int(j, "num_attention_heads", 40, 1, 1024);
  c.head_dim = json_int(j, "attention_head_dim", 128, 2, 1024);
  c.in_channels = json_int(j, "in_channels", 16, 1, 4096);
  c.out_channels = json_int(j, "out_channels", c.in_channels, 1, 4096);
  c.text_dim = json_int(j, "text_dim", 512, 1, 1 << 16);
  c.freq_dim = json_int(j, "freq_dim", 256, 2, 1 << 16);
  c.ffn_dim = json_int(j, "ffn_dim", 13824, 1, 1 << 18);
  c.num_layers = json_int(j, "num_layers", 40, 1, 4096);
  c.cross_attn_norm = json_bool(j, "cross_attn_norm", true);
  c.eps = static_cast<float>(json_double(j, "eps", 1e-6, 0, 1));
  c.image_dim = json_int(j, "image_dim", 0, 0, 1 << 16);
  c.pos_embed_seq_len = json_int(j, "pos_embed_seq_len", 0, 0, 1 << 16);
  c.rope_max_seq_len = json_int(j, "rope_max_seq_len", 1024, 1, 1 << 20);
  const int64_t added = json_int(j, "added_kv_proj_dim", 0, 0, 1 << 18);
  check((added > 0) == c.image_branch() && (added == 0 || added == c.dim()), ErrorCode::unsupported,
        "wan: image_dim {} with added_kv_proj_dim {}: expected both or neither, and {}", c.image_dim, added,
        c.dim());
  const std::string norm = json_string(j, "qk_norm", "rms_norm_across_heads");
  check(norm == "rms_norm_across_heads", ErrorCode::unsupported,
        "wan: qk_norm '{}' is not supported, only rms_norm_across_heads", norm);
  return c;
}

WanConfig from_original(const nlohmann::json& j) {
  WanConfig c;
  read_patch(j, c);
  const int64_t dim = json_int(j, "dim", 2, 1 << 20);
  c.num_heads = json_int(j, "num_heads", 1, 1024);
  check(dim % c.num_heads == 0, ErrorCode::corrupt, "wan: dim {} is not a multiple of num_heads {}", dim,
        c.num_heads);
  c.head_dim = dim / c.num_heads;
  c.in_channels = json_int(j, "in_dim", 16, 1, 4096);
  c.out_channels = json_int(j, "out_dim", 16, 1, 4096);
  c.text_dim = json_int(j, "text_dim", 4096, 1, 1 << 16);
  c.freq_dim = json_int(j, "freq_dim", 256, 2, 1 << 16);
  c.ffn_dim = json_int(j, "ffn_dim", 1, 1 << 18);
  c.num_layers = json_int(j, "num_layers", 1, 4096);
  c.cross_attn_norm = json_bool(j, "cross_attn_norm", true);
  c.eps = static_cast<float>(json_double(j, "eps", 1e-6, 0, 1));
  // 2.1's i2v and flf2v have the CLIP branch. 2.2's i2v-A14B has model_type i2v, too, but no branch (its
  // experts' folders contain no img_emb). For it, the loader has removed the key before this.
  const std::string type = json_string(j, "model_type", "t2v");
  if (type == "flf2v") c.pos_embed_seq_len = 514;
  if (type == "i2v" || type == "flf2v") c.image_dim = 1280;
  c.window = json_int(j, "local_attn_size", -1, -1, 1 << 20);
  c.sinks = json_int(j, "sink_size", 0, 0, 1 << 20);
  check(c.window != 0 && (c.window < 0 || c.sinks < c.window), ErrorCode::corrupt,
        "wan: local_attn_size {} with sink_size {}: expected -1, or more frames than sinks", c.window,
        c.sinks);
  if (const auto actions = j.find("action_config"); actions != j.end() && actions->is_object())
    c.actions = WanActionConfig::from_json(*actions, c.num_layers, c.dim());
  c.sinusoid = Sinusoid::original;
  return c;
}

}  // namespace

Sinusoid parse_sinusoid(std::string_view name) {
  if (name == "diffusers") return Sinusoid::diffusers;
  if (name == "original") return Sinusoid::original;
  fail(ErrorCode::invalid_argument, "`sinusoid`: expected diffusers or original, got '{}'", name);
}

// FastVideo's settings: 80 % of the cubes are left out by FastWan 1.3B and 5B, 90 % by 14B. TurboDiffusion's default
// leaves out 90 % at every size.
double WanConfig::trained_share() const {
  return trained == TrainedSparse::cubes && num_heads < 40 ? 0.2 : 0.1;
}

WanConfig WanConfig::from_json(const nlohmann::json& j) {
  WanConfig c = j.contains("dim") ? from_original(j) : from_diffusers(j);
  c.vace = WanVaceConfig::from_json(j, c.num_layers);
  check(c.freq_dim % 2 == 0 && c.head_dim % 2 == 0, ErrorCode::unsupported,
        "wan: freq_dim {} and attention_head_dim {} must be even", c.freq_dim, c.head_dim);
  return c;
}

}  // namespace tachy
