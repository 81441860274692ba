#include "pipelines/model_bundle.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "samplers/sampler.h"
#include "weights/json_file.h"
#include "weights/rename.h"

namespace tachy {
namespace {

// The negative prompt of the original repository, used by its pipelines when the caller gives none.
constexpr const char* kOriginalNegativePrompt =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，"
    "JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体"
    "，"
    "手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走";

WanConfig transformer_config(const ComponentFiles& files, const TensorSource& source) {
  check(files.config != nullptr, ErrorCode::not_found, "transformer: no config.json beside {}",
        source.files_text());
  WanConfig config = WanConfig::from_json(*files.config);
  // 2.2's image-to-video experts say model_type i2v like
  // 2.1's, but have no CLIP branch: only the tensors tell.
  if (config.sinusoid == Sinusoid::original && !source.has("condition_embedder.image_embedder.norm1.weight"))
    config.image_dim = config.pos_embed_seq_len = 0;
  return config;
}

// The original layout has no config for its text encoder: the dims are read off the tensors.
Umt5Config text_config(const ComponentFiles& files, const TensorSource& source) {
  if (files.config) return Umt5Config::from_json(*files.config);
  Umt5Config c;
  const auto dims = [&](const std::string& name) -> const std::vector<int64_t>& {
    const TensorSource::Entry* entry = source.find(name);
    check(entry && entry->dims.size() == 2, ErrorCode::not_found, "text encoder: no matrix '{}' in {}", name,
          source.files_text());
    return entry->dims;
  };
  const std::string layer = "encoder.block.0.layer.";
  c.vocab_size = dims("shared.weight")[0], c.d_model = dims("shared.weight")[1];
  c.num_buckets = dims(layer + "0.SelfAttention.relative_attention_bias.weight")[0];
  c.num_heads = dims(layer + "0.SelfAttention.relative_attention_bias.weight")[1];
  c.d_kv = dims(layer + "0.SelfAttention.q.weight")[0] / c.num_heads;
  c.d_ff = dims(layer + "1.DenseReluDense.wi_0.weight")[0];
  c.num_layers = 0;
  while (source.has(fmt::format("encoder.block.{}.layer.0.layer_norm.weight", c.num_layers))) ++c.num_layers;
  return c;
}

VaeConfig autoencoder_config(const ComponentFiles& files, const TensorSource& source) {
  if (files.config) return VaeConfig::from_json(*files.config);
  const TensorSource::Entry* input = source.find("decoder.conv_in.weight");
  check(input && input->dims.size() == 5, ErrorCode::not_found, "vae: no 'decoder.conv_in.weight' in {}",
        source.files_text());
  VaeConfig c = input->dims[1] == 48 ? VaeConfig::wan22() : VaeConfig::wan21();
  if (!c.is_residual) c.base_dim = c.decoder_base_dim = input->dims[0] / c.dim_mult.back();
  return c;
}

template <class T>
void fill(std::optional<T>& target, T value) {
  if (!target) target = std::move(value);
}

VideoRequest default_request(const ModelBundle& m) {
  VideoRequest d;
  const bool original = m.files.layout == ModelFiles::Layout::original;
  if (m.files.generation_config) {
    const nlohmann::json& j = *m.files.generation_config;
    if (j.contains("height")) d.height = static_cast<int>(json_int(j, "height", 1, 1 << 14));
    if (j.contains("width")) d.width = static_cast<int>(json_int(j, "width", 1, 1 << 14));
    if (j.contains("num_frames")) d.frames = static_cast<int>(json_int(j, "num_frames", 1, 1 << 16));
    if (j.contains("fps")) d.fps = json_double(j, "fps", 16, 0.1, 1000);
    if (j.contains("num_inference_steps"))
      d.steps = static_cast<int>(json_int(j, "num_inference_steps", 1, 1000));
    if (j.contains("guidance_scale")) d.guidance = json_double(j, "guidance_scale", 5, 0, 100);
    if (j.contains("guidance_scale_2")) d.guidance_2 = json_double(j, "guidance_scale_2", 5, 0, 100);
    if (j.contains("flow_shift")) d.shift = json_double(j, "flow_shift", 5, 0.01, 100);
    if (j.contains("negative_prompt")) d.negative_prompt = json_string(j, "negative_prompt", "");
    // What diffusers keeps in the scheduler's config; distilled models need it as they were distilled.
    if (j.contains("sampler"))
      d.sampler = std::string(to_string(
          naming("generation_config.json", [&] { return parse_sampler(json_string(j, "sampler", "")); })));
    if (j.contains("grid")) d.grid = json_string(j, "grid", "");
  }
  if (m.files.scheduler) {
    const nlohmann::json& j = *m.files.scheduler;
    const std::string name = json_string(j, "_class_name", "UniPCMultistepScheduler");
    fill(d.sampler,
         std::string(to_string(naming("scheduler_config.json", [&] { return parse_sampler(name); }))));
    const double shift = json_double(j, "shift", 1.0, 0.01, 100);
    fill(d.shift, json_double(j, "flow_shift", shift, 0.01, 100));
  }
  const bool ti2v = m.image_input == ImageInput::first_frame, flf2v = m.dit.pos_embed_seq_len > 0;
  fill(d.sampler, std::string("unipc"));
  fill(d.grid, std::string(original ? "original" : "diffusers"));
  const bool experts = m.experts() == 2, channels = m.image_input == ImageInput::channels;
  fill(d.shift, flf2v ? 16.0 : experts && !channels ? 12.0 : 5.0);
  fill(d.steps, experts || (m.dit.image_branch() && !flf2v) ? 40 : 50);
  if (experts) {  // where only the first is known, it stands for both, as in diffusers
    fill(d.guidance_2, d.guidance.value_or(channels ? 3.5 : 3.0));
    fill(d.guidance, channels ? 3.5 : 4.0);
  }
  fill(d.guidance, 5.0);
  fill(d.height, ti2v ? 704 : 480);
  fill(d.width, ti2v ? 1280 : 832);
  fill(d.frames, ti2v ? 121 : 81);
  fill(d.fps, ti2v ? 24.0 : 16.0);
  // 2.1's image-to-video models were given a longer one: no shaking camera, and no cuts.
  const std::string shots = flf2v ? "镜头切换，镜头晃动，" : m.dit.image_branch() ? "镜头晃动，" : "";
  fill(d.negative_prompt, original ? shots + kOriginalNegativePrompt : std::string());
  return d;
}

// Opens the low-noise expert, if there is one.
void open_second_expert(ModelBundle& m, FileAccess access) {
  const ComponentFiles& files = m.files.transformer_2;
  if (!files.present()) return;
  m.transformer_2 = dit_source(open_weights(files.weights, access)).source;
  check(transformer_config(files, *m.transformer_2) == m.dit, ErrorCode::unsupported,
        "{}: its two transformers differ in their options; they must be alike but for their weights",
        m.files.root.string());
  if (m.files.layout == ModelFiles::Layout::original) {  // wan/configs of the original repository
    m.boundary = m.image_input == ImageInput::channels ? 0.9 : 0.875;
    return;
  }
  m.boundary = json_double(*m.files.model_index, "boundary_ratio", -1, 0, 1);
  check(m.boundary >= 0, ErrorCode::not_found,
        "{}: model_index.json lists transformer_2 but no boundary_ratio (0.875 in Wan2.2-T2V-A14B, 0.9 in "
        "I2V-A14B)",
        m.files.root.string());
}

ImageInput detect_image_input(const ModelFiles& files, const WanConfig& c) {
  if (c.image_branch() || c.in_channels > c.out_channels) return ImageInput::channels;
  const bool expands = files.model_index &&
                       json_bool(*files.model_index, "expand_timesteps", false);  // diffusers' name for it
  return expands || c.in_channels == 48 ? ImageInput::first_frame : ImageInput::none;
}

std::string model_kind(const ModelBundle& m) {
  if (m.dit.pos_embed_seq_len > 0) return "first-last-frame-to-video";
  if (m.image_input == ImageInput::channels) return "image-to-video";
  return m.image_input == ImageInput::first_frame ? "text-and-image-to-video" : "text-to-video";
}

std::vector<float> preview_factors(const ModelBundle& m) {
  if (!m.files.generation_config) return {};
  const auto values = json_doubles(*m.files.generation_config, "preview_factors", 4096);
  if (static_cast<int64_t>(values.size()) != (m.vae_config.z_dim + 1) * 3) return {};
  return {values.begin(), values.end()};
}

}  // namespace

ModelBundle ModelBundle::open(const std::filesystem::path& path, FileAccess access) {
  ModelBundle m;
  m.files = open_model(path);
  m.transformer = dit_source(open_weights(m.files.transformer.weights, access)).source;
  m.dit = transformer_config(m.files.transformer, *m.transformer);
  m.text_encoder = umt5_source(open_weights(m.files.text_encoder.weights, access)).source;
  m.text = text_config(m.files.text_encoder, *m.text_encoder);
  m.vae = vae_source(open_weights(m.files.vae.weights, access)).source;
  m.vae_config = autoencoder_config(m.files.vae, *m.vae);
  m.image_input = detect_image_input(m.files, m.dit);
  open_second_expert(m, access);
  m.kind = model_kind(m);
  m.defaults = default_request(m);
  m.preview_factors = tachy::preview_factors(m);
  log_topic(
      "load", "{}: {} model, {} layout, {} mapped", path.string(), m.kind,
      m.files.layout == ModelFiles::Layout::diffusers ? "diffusers" : "original",
      human_bytes(m.mapped_transformer_bytes() + m.text_encoder->mapped_bytes() + m.vae->mapped_bytes()));
  check(m.dit.text_dim == m.text.d_model, ErrorCode::corrupt,
        "{}: the transformer expects text of {} channels, the text encoder makes {}", path.string(),
        m.dit.text_dim, m.text.d_model);
  check(m.dit.out_channels == m.vae_config.z_dim, ErrorCode::corrupt,
        "{}: the transformer makes latents of {} channels, the VAE reads {}", path.string(),
        m.dit.out_channels, m.vae_config.z_dim);
  return m;
}

uint64_t ModelBundle::mapped_transformer_bytes() const {
  return transformer->mapped_bytes() + (transformer_2 ? transformer_2->mapped_bytes() : 0);
}

uint64_t ModelBundle::read_bytes() const {
  return text_encoder->read_bytes() + transformer->read_bytes() + vae->read_bytes() +
         (transformer_2 ? transformer_2->read_bytes() : 0);
}

int64_t ModelBundle::size_multiple() const {
  return vae_config.spatial_stride() * std::max(dit.patch_h, dit.patch_w);
}

TransformerFiles open_transformer(const std::filesystem::path& path) {
  const ComponentFiles files =
      is_component_folder(path) ? open_component(path) : open_model(path).transformer;
  TransformerFiles out;
  out.source = dit_source(open_weights(files.weights)).source;
  out.config = transformer_config(files, *out.source);
  return out;
}

TextEncoderFiles open_text_encoder(const std::filesystem::path& path) {
  const ComponentFiles files =
      is_component_folder(path) ? open_component(path) : open_model(path).text_encoder;
  TextEncoderFiles out;
  out.source = umt5_source(open_weights(files.weights)).source;
  out.config = text_config(files, *out.source);
  return out;
}

VaeFiles open_vae(const std::filesystem::path& path) {
  const ComponentFiles files = is_component_folder(path) ? open_component(path) : open_model(path).vae;
  VaeFiles out;
  out.source = vae_source(open_weights(files.weights)).source;
  out.config = autoencoder_config(files, *out.source);
  return out;
}

}  // namespace tachy
