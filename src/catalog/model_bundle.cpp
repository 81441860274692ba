#include "catalog/model_bundle.h"

#include "base/env.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "base/log.h"
#include "catalog/model_defaults.h"
#include "models/wan/relatives.h"
#include "weights/hub_cache.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

// Opens a part that the user has named, and says so in errors about it.
ComponentFiles named_part(const char* field, const fs::path& path,
                          ComponentFiles (*part_at)(const fs::path&)) {
  ComponentFiles files = naming(field, [&] { return part_at(path); });
  check(files.present(), ErrorCode::not_found, "{}: {} has no such part", field, path.string());
  return files;
}

template <class Body>
auto naming_alone(const char* field, const ComponentFiles& files, Body&& body) {
  return files.alone ? naming(field, body) : body();
}

ModelFiles model_files(const fs::path& path, const PartPaths& parts) {
  std::error_code ignored;
  ModelFiles files;
  if (fs::is_regular_file(path, ignored))
    files = {.layout = ModelFiles::Layout::single, .root = path, .transformer = transformer_at(path)};
  else
    files = open_model(path);
  if (!parts.transformer_2.empty()) {
    files.transformer_2 = named_part("`transformer_2`", parts.transformer_2, transformer_at);
    const auto says = [](const fs::path& file, const char* noise) {
      return file.filename().string().find(noise) != std::string::npos;
    };
    require(!says(path, "low_noise") || !says(parts.transformer_2, "high_noise"),
            "`transformer_2`: the name of {} says that it is the high-noise expert; give that one as the "
            "model, and the low-noise one here",
            parts.transformer_2.string());
  }
  if (!parts.text_encoder.empty())
    files.text_encoder = named_part("`text_encoder`", parts.text_encoder, text_encoder_at);
  if (!parts.vae.empty()) files.vae = named_part("`vae`", parts.vae, vae_at);
  if (!parts.image_encoder.empty())
    files.image_encoder = named_part("`image_encoder`", parts.image_encoder, image_encoder_at);
  return files;
}

// Chooses the tokenizer: the one that the user has named, or that of a named text encoder, or the folder's.
void choose_tokenizer(ModelBundle& m, const PartPaths& parts) {
  fs::path& tokenizer = m.files.tokenizer;
  if (!parts.tokenizer.empty()) {
    std::error_code ignored;
    check(fs::exists(parts.tokenizer, ignored), ErrorCode::not_found, "`tokenizer`: {}: {}",
          parts.tokenizer.string(), why_missing(parts.tokenizer));
    tokenizer = parts.tokenizer;
    return;
  }
  if (!tokenizer.empty() && parts.text_encoder.empty()) return;
  if (carries_tokenizer(*m.text_encoder)) {
    tokenizer.clear();
    return;
  }
  if (const fs::path beside = tokenizer_beside(m.files.text_encoder.weights); !beside.empty())
    tokenizer = beside;
  check(!tokenizer.empty(), ErrorCode::not_found,
        "`tokenizer`: {} carries none: name tokenizer.json, spiece.model or a folder that has one",
        m.text_encoder->files_text());
}

// Opens the text encoder and finds its tokenizer. A model that follows actions has neither.
void open_text_encoder_of(ModelBundle& m, const PartPaths& parts, FileAccess access) {
  if (!m.reads_text()) {
    const char* const named = !parts.text_encoder.empty() ? "`text_encoder`" : "`tokenizer`";
    require(parts.text_encoder.empty() && parts.tokenizer.empty(),
            "{}: this model reads no text: it follows a picture and actions; leave it out", named);
    return;
  }
  TextEncoderFiles text = naming_alone("`text_encoder`", m.files.text_encoder,
                                       [&] { return read_text_encoder(m.files.text_encoder, access); });
  m.text_encoder = text.source, m.text = text.config;
  choose_tokenizer(m, parts);
}

// Opens CLIP's vision model if the transformer uses its results and the model has one.
void open_image_encoder_of(ModelBundle& m, const fs::path& path, const PartPaths& parts, FileAccess access) {
  ComponentFiles& files = m.files.image_encoder;
  if (m.dit.image_dim == 0) {
    require(parts.image_encoder.empty(), "`image_encoder`: this model has no image branch; leave it out");
    return;
  }
  m.no_image_encoder = fmt::format(
      "`image_encoder`: this model looks at its pictures through CLIP's vision model too, and {} has none: "
      "name it (clip_vision_h.safetensors, models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth, or a "
      "folder)",
      m.files.root.string());
  if (!files.present() && m.files.layout == ModelFiles::Layout::single) {
    try {
      files = find_image_encoder(path, m.dit);
    } catch (const Error& e) {  // the user may give embeddings instead
      m.no_image_encoder = e.message();
    }
  }
  if (!files.present()) return;
  const auto read = [&] { return read_image_encoder(files, access); };
  const ImageEncoderFiles clip =
      parts.image_encoder.empty() && !files.alone ? read() : naming("`image_encoder`", read);
  m.image_encoder = clip.source, m.clip = clip.config, m.clip_preparation = clip.preparation;
  const std::string where =
      (parts.image_encoder.empty() ? "" : "`image_encoder`: ") + m.image_encoder->files_text();
  check(m.clip.hidden_size == m.dit.image_dim, ErrorCode::corrupt,
        "{}: the transformer expects image embeddings of {} channels, the image encoder makes {}", where,
        m.dit.image_dim, m.clip.hidden_size);
  check(m.dit.pos_embed_seq_len == 0 || m.dit.pos_embed_seq_len == 2 * m.clip.tokens(), ErrorCode::corrupt,
        "{}: the transformer expects {} rows of two pictures, the image encoder makes {} of each", where,
        m.dit.pos_embed_seq_len, m.clip.tokens());
}

// Opens the low-noise expert if there is one.
void open_second_expert(ModelBundle& m, FileAccess access) {
  const ComponentFiles& files = m.files.transformer_2;
  if (!files.present()) return;
  const TransformerFiles low =
      naming_alone("`transformer_2`", files, [&] { return read_transformer(files, access); });
  m.transformer_2 = low.source;
  WanConfig same = low.config;
  if (files.alone) same.sinusoid = m.dit.sinusoid;
  check(same == m.dit, ErrorCode::unsupported,
        "{}: its two transformers differ in their options; they may only differ in their weights",
        m.files.root.string());
  const bool diffusers = m.files.layout == ModelFiles::Layout::diffusers;
  m.boundary = diffusers ? json_double(*m.files.model_index, "boundary_ratio", -1, 0, 1) : -1;
  if (m.boundary < 0 && (!diffusers || files.alone))  // see wan/configs in the original repository
    m.boundary = m.family->boundary;
  check(m.boundary >= 0, ErrorCode::not_found,
        "{}: model_index.json lists transformer_2 but no boundary_ratio (0.875 in Wan2.2-T2V-A14B, 0.9 in "
        "I2V-A14B)",
        m.files.root.string());
}

// If the transformer follows speech, opens the audio encoder: the named one, or the model's own.
void open_audio_encoder_of(ModelBundle& m, const PartPaths& parts) {
  if (!m.dit.audio_branch()) {
    require(parts.audio_encoder.empty(),
            "`audio_encoder`: {}: this transformer has no audio branch; name InfiniteTalk's file "
            "(`infinitetalk`), or leave it out",
            parts.audio_encoder.string());
    return;
  }
  fs::path path = parts.audio_encoder;
  std::error_code ignored;
  if (path.empty() && fs::is_directory(m.files.root / "audio_encoder", ignored))
    path = m.files.root / "audio_encoder";
  if (path.empty()) return;
  const AudioEncoderFiles files = naming("`audio_encoder`", [&] { return open_audio_encoder(path); });
  m.audio_encoder = files.source, m.audio = files.config;
  m.audio_standardised = files.normalise.value_or(false);
  check(m.audio.hidden_size == m.dit.audio_dim && m.audio.num_layers == m.dit.audio_layers,
        ErrorCode::corrupt,
        "`audio_encoder`: {}: the transformer expects {} states of {} channels, this makes {} of {}",
        m.audio_encoder->files_text(), m.dit.audio_layers, m.dit.audio_dim, m.audio.num_layers,
        m.audio.hidden_size);
}

// Finds InfiniteTalk's file: the one that the user has named, or the one that the model names in its folder.
fs::path infinitetalk_of(const ModelFiles& files, const PartPaths& parts) {
  if (!parts.infinitetalk.empty() || !files.generation_config) return parts.infinitetalk;
  const std::string name = json_string(*files.generation_config, "infinitetalk", "");
  if (name.empty()) return {};
  check(fs::path(name).filename() == name && name != "." && name != "..", ErrorCode::corrupt,
        "{}: generation_config.json: infinitetalk: expected the name of a file beside it, got '{}'",
        files.root.string(), name);
  return files.root / name;
}

}  // namespace

ModelBundle ModelBundle::open(const fs::path& named, FileAccess access, const PartPaths& parts) {
  ModelBundle m;
  const fs::path path = snapshot_of(named);
  m.files = model_files(path, parts);
  const bool single = m.files.layout == ModelFiles::Layout::single;
  TransformerFiles transformer = read_transformer(m.files.transformer, access);
  if (const fs::path file = infinitetalk_of(m.files, parts); !file.empty())
    add_infinitetalk(transformer, file, access);
  m.transformer = transformer.source, m.dit = transformer.config;
  refuse_other_inputs(m.dit, m.transformer->files_text());
  m.family = &family_of(m.files, m.dit);
  m.original = m.files.layout == ModelFiles::Layout::original || (single && transformer.original);
  // If Matrix-Game 2's transformer is a single file, its other parts are files beside it. The parts of other
  // models may be named or be in ComfyUI's folders.
  if (m.family->actions && single) find_original_parts(m.files, m.files.transformer.weights.parent_path());
  if (m.reads_text() && !m.files.text_encoder.present())
    m.files.text_encoder = find_text_encoder(path, m.dit);
  if (!m.files.vae.present()) m.files.vae = find_vae(path, m.dit);
  open_text_encoder_of(m, parts, access);
  VaeFiles vae = naming_alone("`vae`", m.files.vae, [&] { return read_vae(m.files.vae, access); });
  m.vae = vae.source, m.vae_config = vae.config;
  open_second_expert(m, access);
  open_image_encoder_of(m, path, parts, access);
  open_audio_encoder_of(m, parts);
  m.defaults = default_request(m);
  m.preview_factors = tachy::preview_factors(m);
  m.step_caches = tachy::own_step_caches(m);
  log_topic("load", "{}: {} model, {} layout, {} mapped", path.string(), m.kind(),
            layout_name(m.files.layout),
            human_bytes(m.mapped_transformer_bytes() + (m.text_encoder ? m.text_encoder->mapped_bytes() : 0) +
                        m.vae->mapped_bytes()));
  check(!m.reads_text() || m.dit.text_dim == m.text.d_model, ErrorCode::corrupt,
        "{}{}: the transformer expects text of {} channels, the text encoder makes {}",
        parts.text_encoder.empty() ? "" : "`text_encoder`: ", m.files.text_encoder.weights.string(),
        m.dit.text_dim, m.text.d_model);
  check(m.dit.out_channels == m.vae_config.z_dim, ErrorCode::corrupt,
        "{}{}: the transformer makes latents of {} channels, the VAE reads {}",
        parts.vae.empty() ? "" : "`vae`: ", m.vae->files_text(), m.dit.out_channels, m.vae_config.z_dim);
  return m;
}

uint64_t ModelBundle::mapped_transformer_bytes() const {
  return transformer->mapped_bytes() + (transformer_2 ? transformer_2->mapped_bytes() : 0);
}

uint64_t ModelBundle::read_bytes() const {
  return (text_encoder ? text_encoder->read_bytes() : 0) + transformer->read_bytes() + vae->read_bytes() +
         (transformer_2 ? transformer_2->read_bytes() : 0) +
         (image_encoder ? image_encoder->read_bytes() : 0) +
         (audio_encoder ? audio_encoder->read_bytes() : 0);
}

int64_t ModelBundle::size_multiple() const {
  return vae_config.spatial_stride() * std::max(dit.patch_h, dit.patch_w);
}

}  // namespace tachy
