#include "catalog/diffusers_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr const char* kDiffusersVersion = "0.42.1";  // the version whose keys are written

// Writes a number in its short form, such as 1e-06 for 1e-6f.
json number(float value) { return parse_json_line(fmt::format("{}", value)); }

json numbers(const std::vector<float>& values) {
  json out = json::array();
  for (const float value : values) out.push_back(number(value));
  return out;
}

json or_null(int64_t value) { return value > 0 ? json(value) : json(); }

// Returns a part's config.json if it has `key`, but without the description of how its weights were
// quantised, because they no longer are.
json own(const ComponentFiles& files, const char* key) {
  if (!files.config || !files.config->contains(key)) return {};
  json out = *files.config;
  out.erase("quantization_config");
  return out;
}

const char* class_of(const WanConfig& c) {
  return c.vace.present() ? "WanVACETransformer3DModel" : "WanTransformer3DModel";
}

}  // namespace

json transformer_json(const ComponentFiles& files, const WanConfig& c) {
  if (json out = own(files, "num_attention_heads"); !out.is_null()) return out;
  json out = {{"_class_name", class_of(c)},
              {"_diffusers_version", kDiffusersVersion},
              {"added_kv_proj_dim", c.image_branch() ? json(c.dim()) : json()},
              {"attention_head_dim", c.head_dim},
              {"cross_attn_norm", c.cross_attn_norm},
              {"eps", number(c.eps)},
              {"ffn_dim", c.ffn_dim},
              {"freq_dim", c.freq_dim},
              {"image_dim", or_null(c.image_dim)},
              {"in_channels", c.in_channels},
              {"num_attention_heads", c.num_heads},
              {"num_layers", c.num_layers},
              {"out_channels", c.out_channels},
              {"patch_size", {c.patch_t, c.patch_h, c.patch_w}},
              {"pos_embed_seq_len", or_null(c.pos_embed_seq_len)},
              {"qk_norm", "rms_norm_across_heads"},
              {"rope_max_seq_len", c.rope_max_seq_len},
              {"text_dim", c.text_dim}};
  if (c.vace.present()) out["vace_in_channels"] = c.vace.in_channels, out["vace_layers"] = c.vace.layers;
  return out;
}

json text_encoder_json(const ComponentFiles& files, const Umt5Config& c, DType dtype) {
  if (json out = own(files, "d_kv"); !out.is_null()) return out;
  return {{"architectures", {"UMT5EncoderModel"}},
          {"d_ff", c.d_ff},
          {"d_kv", c.d_kv},
          {"d_model", c.d_model},
          {"decoder_start_token_id", 0},
          {"dense_act_fn", "gelu_new"},
          {"dropout_rate", 0.1},
          {"dtype", dtype == DType::f16   ? "float16"
                    : dtype == DType::f32 ? "float32"
                                          : "bfloat16"},
          {"eos_token_id", 1},
          {"feed_forward_proj", "gated-gelu"},
          {"is_encoder_decoder", true},
          {"is_gated_act", true},
          {"layer_norm_epsilon", number(c.eps)},
          {"model_type", "umt5"},
          {"num_decoder_layers", c.num_layers},
          {"num_heads", c.num_heads},
          {"num_layers", c.num_layers},
          {"pad_token_id", 0},
          {"relative_attention_max_distance", c.max_distance},
          {"relative_attention_num_buckets", c.num_buckets},
          {"tie_word_embeddings", true},
          {"vocab_size", c.vocab_size}};
}

json image_encoder_json(const ComponentFiles& files, const ClipVisionConfig& c) {
  if (json out = own(files, "num_attention_heads"); !out.is_null()) return out;
  return {{"architectures", {"CLIPVisionModel"}},
          {"hidden_act", c.act == ops::Activation::gelu_erf ? "gelu" : "gelu_pytorch_tanh"},
          {"hidden_size", c.hidden_size},
          {"image_size", c.image_size},
          {"intermediate_size", c.intermediate_size},
          {"layer_norm_eps", number(c.eps)},
          {"model_type", "clip_vision_model"},
          {"num_attention_heads", c.num_heads},
          {"num_channels", 3},
          {"num_hidden_layers", c.num_layers},
          {"patch_size", c.patch_size}};
}

json image_processor_json(const ClipPreparation& p) {
  return {{"crop_size", {{"height", p.side}, {"width", p.side}}},
          {"do_center_crop", true},
          {"do_convert_rgb", true},
          {"do_normalize", true},
          {"do_rescale", true},
          {"do_resize", true},
          {"image_mean", p.mean},
          {"image_processor_type", "CLIPImageProcessor"},
          {"image_std", p.deviation},
          {"resample", 3},
          {"rescale_factor", p.rescale},
          {"size", {{"shortest_edge", p.shortest_edge}}}};
}

json vae_json(const ComponentFiles& files, const VaeConfig& c) {
  if (json out = own(files, "z_dim"); !out.is_null()) return out;
  return {{"_class_name", "AutoencoderKLWan"},
          {"_diffusers_version", kDiffusersVersion},
          {"attn_scales", json::array()},
          {"base_dim", c.base_dim},
          {"decoder_base_dim", c.decoder_base_dim},
          {"dim_mult", c.dim_mult},
          {"dropout", 0.0},
          {"in_channels", c.in_channels},
          {"is_residual", c.is_residual},
          {"latents_mean", numbers(c.latents_mean)},
          {"latents_std", numbers(c.latents_std)},
          {"num_res_blocks", c.num_res_blocks},
          {"out_channels", c.out_channels},
          {"patch_size", c.patch_size > 1 ? json(c.patch_size) : json()},
          {"scale_factor_spatial", c.spatial_stride()},
          {"scale_factor_temporal", c.temporal_stride()},
          {"temperal_downsample", c.temporal_downsample},
          {"z_dim", c.z_dim}};
}

json scheduler_json(const ModelBundle& m) {
  if (m.files.scheduler) return *m.files.scheduler;
  return {{"_class_name", "UniPCMultistepScheduler"},
          {"_diffusers_version", kDiffusersVersion},
          {"final_sigmas_type", "zero"},
          {"flow_shift", m.defaults.shift.value_or(5.0)},
          {"lower_order_final", true},
          {"num_train_timesteps", 1000},
          {"predict_x0", true},
          {"prediction_type", "flow_prediction"},
          {"solver_order", 2},
          {"solver_type", "bh2"},
          {"timestep_spacing", "linspace"},
          {"use_flow_sigmas", true}};
}

json model_index_json(const ModelBundle& m, bool tokenizer) {
  json out = m.files.model_index ? *m.files.model_index : json();
  const auto part = [](bool there, const char* library, const char* name) {
    return there ? json::array({library, name}) : json::array({nullptr, nullptr});
  };
  const bool pictures = m.family->image_input == ImageInput::channels, looks = m.image_encoder != nullptr;
  const auto add_image_encoder = [&] {
    out["image_encoder"] = part(looks, "transformers", "CLIPVisionModel");
    out["image_processor"] = part(looks, "transformers", "CLIPImageProcessor");
  };
  if (!out.is_null()) {
    const auto it = out.find("image_encoder");
    const bool listed = it != out.end() && it->is_array() && it->size() == 2 && !(*it)[1].is_null();
    if (looks && !listed) add_image_encoder();
    return out;
  }
  const char* const pipeline = pictures            ? "WanImageToVideoPipeline"
                               : m.family->follows ? "WanVACEPipeline"
                                                   : "WanPipeline";
  out = {{"_class_name", pipeline},
         {"_diffusers_version", kDiffusersVersion},
         {"boundary_ratio", m.transformer_2 ? json(m.boundary) : json()},
         {"expand_timesteps", m.family->image_input == ImageInput::first_frame},
         {"scheduler", part(true, "diffusers", "UniPCMultistepScheduler")},
         {"text_encoder", part(m.text_encoder != nullptr, "transformers", "UMT5EncoderModel")},
         {"tokenizer", part(tokenizer, "transformers", "T5TokenizerFast")},
         {"transformer", part(m.transformer != nullptr, "diffusers", class_of(m.dit))},
         {"transformer_2", part(m.transformer_2 != nullptr, "diffusers", class_of(m.dit))},
         {"vae", part(m.vae != nullptr, "diffusers", "AutoencoderKLWan")}};
  if (pictures) add_image_encoder();
  return out;
}

}  // namespace tachy
