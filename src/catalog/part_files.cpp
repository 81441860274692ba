#include "catalog/part_files.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/log.h"
#include "models/clip_vision/clip_preparation.h"
#include "models/wan/branches/audio/audio_config.h"
#include "models/wan/infer_config.h"
#include "models/wan/relatives.h"
#include "weights/hub_cache.h"
#include "weights/json_file.h"
#include "weights/names/rename.h"
#include "weights/open_file.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using Json = std::shared_ptr<const nlohmann::json>;

// For each part, a key that is in each of its configs and in no other part's.
constexpr const char* kTransformerKey = "ffn_dim";
constexpr const char* kTextEncoderKey = "d_kv";
constexpr const char* kVaeKey = "z_dim";
constexpr const char* kImageEncoderKey = "image_size";
constexpr const char* kAudioEncoderKey = "conv_kernel";

Json config_beside(const fs::path& file, const char* key) {
  fs::path own = file;
  own.replace_extension(".json");
  std::error_code ignored;
  for (const fs::path& path : {own, file.parent_path() / "config.json"}) {
    if (path == file || !lies_at(path) || fs::is_directory(path, ignored)) continue;
    auto json = std::make_shared<const nlohmann::json>(read_json(path));
    if (json->contains(key)) return json;
  }
  return nullptr;
}

Json config_in_header(const TensorSource& source, const char* key) {
  const auto text = source.metadata().find("config");
  if (text == source.metadata().end()) return nullptr;
  auto json = std::make_shared<const nlohmann::json>(
      parse_json(text->second, source.files_text() + ": its metadata 'config'"));
  return json->contains(key) ? json : nullptr;
}

// In the original repositories, text encoders, VAEs and image encoders have no config file.
Json config_of(const ComponentFiles& files, const TensorSource& source, const char* key) {
  return files.config ? files.config : config_in_header(source, key);
}

ComponentFiles part_at(const fs::path& named, ComponentFiles ModelFiles::*part, const char* key) {
  std::error_code ignored;
  const fs::path path = snapshot_of(named);
  check(fs::exists(path, ignored), ErrorCode::not_found, "{}: {}", path.string(), why_missing(path));
  if (is_component_folder(path)) return open_component(path);
  if (fs::is_directory(path, ignored)) return open_model(path).*part;
  refuse_lone_shard(path);
  return {.weights = path, .config = config_beside(path, key), .alone = true};
}

WanConfig transformer_config(const ComponentFiles& files, const NamedSource& named) {
  const TensorSource& source = *named.source;
  const Json json = config_of(files, source, kTransformerKey);
  const Sinusoid by_names = named.original ? Sinusoid::original : Sinusoid::diffusers;
  if (json) refuse_other_class(*json, source.files_text());
  if (!files.alone && is_wan_transformer(source)) refuse_relatives(source);
  if (!json && files.alone) return infer_wan_config(source, by_names);
  check(json != nullptr, ErrorCode::not_found, "transformer: no config.json beside {}", source.files_text());
  WanConfig config = WanConfig::from_json(*json);
  if (config.sinusoid == Sinusoid::original) correct_by_tensors(config, source);
  if (!files.alone) return config;
  check_wan_config(config, source);
  config.sinusoid = by_names;
  return config;
}

// If the file is another part of a model, the error says which field it belongs to.
void check_is_transformer(const std::shared_ptr<TensorSource>& source) {
  const auto refuse = [&](bool is, const char* other, const char* field) {
    check(!is, ErrorCode::invalid_argument, "{}: expected a transformer, but this is {}; give it as `{}`",
          source->files_text(), other, field);
  };
  refuse(is_umt5_encoder(*umt5_source(source).source), "a text encoder", "text_encoder");
  refuse(is_wan_vae(*vae_source(source).source), "a VAE", "vae");
  refuse(is_clip_vision(*clip_vision_source(source).source), "an image encoder", "image_encoder");
}

}  // namespace

TransformerFiles read_transformer(const ComponentFiles& files, FileAccess access) {
  const auto weights = open_weights(files.weights, access);
  const NamedSource named = dit_source(weights);
  refuse_turbo_quantised(*named.source);
  if (files.alone && !is_wan_transformer(*named.source)) check_is_transformer(weights);
  TransformerFiles out{
      .source = named.source, .config = transformer_config(files, named), .original = named.original};
  out.config.trained = find_trained_sparse(*out.source);
  add_audio_branch(out.config, *out.source);
  return out;
}

void add_infinitetalk(TransformerFiles& transformer, const fs::path& path, FileAccess access) {
  naming("`infinitetalk`", [&] {
    const auto added = infinitetalk_source(open_weights(path, access));
    check(has_audio_branch(*added), ErrorCode::invalid_argument,
          "{}: expected InfiniteTalk's audio branch, found no tensors 'audio_proj.proj1.weight' and "
          "'blocks.0.audio_cross_attn.kv_linear.weight' in it",
          added->files_text());
    check(!transformer.config.audio_branch(), ErrorCode::invalid_argument,
          "{}: the transformer in {} has an audio branch already", added->files_text(),
          transformer.source->files_text());
    transformer.source = joined(*transformer.source, *added);
    add_audio_branch(transformer.config, *transformer.source);
  });
}

TextEncoderFiles read_text_encoder(const ComponentFiles& files, FileAccess access) {
  TextEncoderFiles out{.source = umt5_source(open_weights(files.weights, access)).source, .config = {}};
  const Json json = config_of(files, *out.source, kTextEncoderKey);
  out.config = json ? Umt5Config::from_json(*json) : Umt5Config::from_tensors(*out.source);
  return out;
}

VaeFiles read_vae(const ComponentFiles& files, FileAccess access) {
  VaeFiles out{.source = vae_source(open_weights(files.weights, access)).source, .config = {}};
  const Json json = config_of(files, *out.source, kVaeKey);
  out.config = json ? VaeConfig::from_json(*json) : VaeConfig::from_tensors(*out.source);
  if (!json && files.alone && !out.config.is_residual && out.config.base_dim != VaeConfig::wan21().base_dim)
    warn("`vae`: {} has no config, so its latents are assumed to have the mean and deviation of Wan 2.1's",
         out.source->files_text());
  return out;
}

ImageEncoderFiles read_image_encoder(const ComponentFiles& files, FileAccess access) {
  ImageEncoderFiles out{.source = clip_vision_source(open_weights(files.weights, access)).source,
                        .config = {},
                        .preparation = {}};
  check(is_clip_vision(*out.source), ErrorCode::not_found, "{}: it holds no CLIP vision model",
        out.source->files_text());
  const Json json = config_of(files, *out.source, kImageEncoderKey);
  out.config = json ? ClipVisionConfig::from_json(*json) : ClipVisionConfig::from_tensors(*out.source);
  const auto side = static_cast<int>(out.config.image_size);
  out.preparation = {.shortest_edge = side, .side = side};
  const fs::path folder = files.weights.parent_path();
  // In diffusers' layout the processor's folder is beside image_encoder/. For other layouts, files beside the
  // folder belong to other models.
  const fs::path beside =
      folder.filename() == "image_encoder" ? folder.parent_path() / "image_processor" : folder;
  for (const fs::path& place : {folder, beside}) {
    const fs::path file = place / "preprocessor_config.json";
    if (!lies_at(file)) continue;
    out.preparation = naming(file.string(), [&] { return clip_preparation(read_json(file), side); });
    break;
  }
  return out;
}

ComponentFiles transformer_at(const fs::path& path) {
  return part_at(path, &ModelFiles::transformer, kTransformerKey);
}
ComponentFiles text_encoder_at(const fs::path& path) {
  return part_at(path, &ModelFiles::text_encoder, kTextEncoderKey);
}
ComponentFiles vae_at(const fs::path& path) { return part_at(path, &ModelFiles::vae, kVaeKey); }
ComponentFiles image_encoder_at(const fs::path& path) {
  return part_at(path, &ModelFiles::image_encoder, kImageEncoderKey);
}

TransformerFiles open_transformer(const fs::path& path) { return read_transformer(transformer_at(path)); }
TextEncoderFiles open_text_encoder(const fs::path& path) { return read_text_encoder(text_encoder_at(path)); }
VaeFiles open_vae(const fs::path& path) { return read_vae(vae_at(path)); }
ImageEncoderFiles open_image_encoder(const fs::path& path) {
  const ComponentFiles files = image_encoder_at(path);
  check(files.present(), ErrorCode::not_found, "{}: it has no image encoder", path.string());
  return read_image_encoder(files);
}

AudioEncoderFiles open_audio_encoder(const fs::path& named) {
  std::error_code ignored;
  const fs::path path = snapshot_of(named);
  check(fs::exists(path, ignored), ErrorCode::not_found, "{}: {}", path.string(), why_missing(path));
  const bool folder = fs::is_directory(path, ignored);
  const ComponentFiles files =
      folder
          ? open_component(path)
          : ComponentFiles{.weights = path, .config = config_beside(path, kAudioEncoderKey), .alone = true};
  AudioEncoderFiles out{
      .source = wav2vec2_source(open_weights(files.weights)), .config = {}, .normalise = {}};
  check(is_wav2vec2(*out.source), ErrorCode::not_found, "{}: it holds no wav2vec2", out.source->files_text());
  const Json json = config_of(files, *out.source, kAudioEncoderKey);
  out.config = json ? Wav2Vec2Config::from_json(*json) : Wav2Vec2Config::from_tensors(*out.source);
  const fs::path file = (folder ? path : path.parent_path()) / "preprocessor_config.json";
  if (!lies_at(file)) return out;
  naming(file.string(), [&] {
    const nlohmann::json processor = read_json(file);
    const int64_t rate = json_int(processor, "sampling_rate", Wav2Vec2Config::kSampleRate, 1, 1 << 20);
    check(rate == Wav2Vec2Config::kSampleRate, ErrorCode::unsupported,
          "sampling_rate {} is not supported, only {}", rate, Wav2Vec2Config::kSampleRate);
    out.normalise = json_bool(processor, "do_normalize", true);
  });
  return out;
}

}  // namespace tachy
