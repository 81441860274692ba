#include "pipelines/model_bundle.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "pipelines/model_defaults.h"
#include "weights/json_file.h"
#include "weights/rename.h"

namespace tachy {
namespace {

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
