#include "report/info.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "catalog/model_bundle.h"
#include "models/wan/infer_config.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

// Tells formats apart by the first bytes, like open_weights.
std::string container_of(const TensorSource& source) {
  if (source.files().empty()) return "";
  const auto bytes = source.files().front()->bytes();
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 9));
  return head.starts_with("GGUF") ? "GGUF" : head.starts_with("PK") ? "PyTorch" : "safetensors";
}

ComponentInfo describe(const char* name, const TensorSource& source) {
  ComponentInfo out{.name = name,
                    .file = source.files_text(),
                    .container = container_of(source),
                    .bytes = source.mapped_bytes()};
  std::map<std::string, int64_t> dtypes;
  for (const auto& entry : source.entries()) {
    uint64_t count = 1;
    for (int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
    out.parameters += count;
    ++out.tensors;
    ++dtypes[std::string(entry.derived ? entry.derived->encoding() : dtype_name(entry.dtype))];
  }
  std::vector<std::pair<int64_t, std::string>> ordered;
  for (const auto& [dtype, count] : dtypes) ordered.emplace_back(-count, dtype);
  std::sort(ordered.begin(), ordered.end());
  for (const auto& [count, dtype] : ordered)
    out.dtypes.push_back(fmt::format("{} ({} tensors)", dtype, -count));
  return out;
}

ComponentInfo describe_text(const TensorSource& source, const Umt5Config& c) {
  ComponentInfo text = describe("text encoder", source);
  text.options = {{"layers", fmt::format("{}", c.num_layers)},
                  {"width", fmt::format("{}", c.d_model)},
                  {"heads", fmt::format("{} of {}", c.num_heads, c.d_kv)},
                  {"feed-forward", fmt::format("{}", c.d_ff)},
                  {"vocabulary", fmt::format("{}", c.vocab_size)}};
  if (carries_tokenizer(source)) text.options.push_back({"tokenizer", "carried"});
  return text;
}

ComponentInfo describe_transformer(const TensorSource& source, const WanConfig& c) {
  ComponentInfo dit = describe("transformer", source);
  dit.options = {{"layers", fmt::format("{}", c.num_layers)},
                 {"width", fmt::format("{}", c.dim())},
                 {"heads", fmt::format("{} of {}", c.num_heads, c.head_dim)},
                 {"feed-forward", fmt::format("{}", c.ffn_dim)},
                 {"channels", fmt::format("{} in, {} out", c.in_channels, c.out_channels)},
                 {"patch", fmt::format("{}x{}x{}", c.patch_t, c.patch_h, c.patch_w)},
                 {"text width", fmt::format("{}", c.text_dim)},
                 {"image branch", c.image_branch() ? "yes" : "no"}};
  if (c.vace.present())
    dit.options.push_back({"control blocks", fmt::format("{}, with {} channels of control",
                                                         c.vace.layers.size(), c.vace.in_channels)});
  if (c.actions.present())
    dit.options.push_back(
        {"actions", fmt::format("{} keys{}, in {} layers", c.actions.keyboard_dim,
                                c.actions.mouse_dim > 0 ? " and a mouse" : "", c.actions.blocks.size())});
  return dit;
}

ComponentInfo describe_vae(const TensorSource& source, const VaeConfig& c) {
  ComponentInfo vae = describe("vae", source);
  vae.options = {
      {"base width", fmt::format("{}", c.base_dim)},
      {"latent channels", fmt::format("{}", c.z_dim)},
      {"stride", fmt::format("{}x{}x{}", c.temporal_stride(), c.spatial_stride(), c.spatial_stride())}};
  return vae;
}

ComponentInfo describe_image_encoder(const TensorSource& source, const ClipVisionConfig& c) {
  ComponentInfo clip = describe("image encoder", source);
  clip.options = {{"layers", fmt::format("{} of {}", c.num_layers - 1, c.num_layers)},
                  {"width", fmt::format("{}", c.hidden_size)},
                  {"heads", fmt::format("{} of {}", c.num_heads, c.head_dim())},
                  {"feed-forward", fmt::format("{}", c.intermediate_size)},
                  {"picture", fmt::format("{}x{}", c.image_size, c.image_size)},
                  {"patch", fmt::format("{}x{}", c.patch_size, c.patch_size)}};
  return clip;
}

// Describes a file that cannot make a video by itself.
ModelInfo describe_file(const std::filesystem::path& path, std::vector<std::string> missing) {
  ModelInfo info{.path = path.string(),
                 .layout = layout_name(ModelFiles::Layout::single),
                 .missing = std::move(missing)};
  const auto weights = open_weights(path);
  if (is_umt5_encoder(*umt5_source(weights).source)) {
    const TextEncoderFiles text = open_text_encoder(path);
    info.missing = {"a transformer: this is a text encoder, which `text_encoder` takes"};
    info.kind = "text encoder", info.components = {describe_text(*text.source, text.config)};
  } else if (is_wan_vae(*vae_source(weights).source)) {
    const VaeFiles vae = open_vae(path);
    info.missing = {"a transformer: this is a VAE, which `vae` takes"};
    info.kind = "VAE", info.components = {describe_vae(*vae.source, vae.config)};
  } else if (is_clip_vision(*clip_vision_source(weights).source)) {
    const ImageEncoderFiles clip = open_image_encoder(path);
    info.missing = {"a transformer: this is an image encoder, which `image_encoder` takes"};
    info.kind = "image encoder", info.components = {describe_image_encoder(*clip.source, clip.config)};
  } else {
    const TransformerFiles dit = open_transformer(path);
    info.kind = family_of({}, dit.config).kind,
    info.components = {describe_transformer(*dit.source, dit.config)};
  }
  return info;
}

// Returns the parts that the file needs but does not find; nothing for a folder.
std::vector<std::string> what_is_missing(const std::filesystem::path& path, const PartPaths& parts) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  if (!is_wan_transformer(*dit_source(open_weights(path)).source)) return {"a transformer"};
  return missing_parts(path, parts);
}

}  // namespace

ModelInfo describe_model(const std::filesystem::path& path, const PartPaths& parts) {
  if (auto missing = what_is_missing(path, parts); !missing.empty())
    return describe_file(path, std::move(missing));
  const ModelBundle m = ModelBundle::open(path, FileAccess::map, parts);
  ModelInfo info{.path = path.string(), .kind = m.kind(), .layout = layout_name(m.files.layout)};
  ComponentInfo dit = describe_transformer(*m.transformer, m.dit), vae = describe_vae(*m.vae, m.vae_config);
  if (m.text_encoder) info.components = {describe_text(*m.text_encoder, m.text)};
  info.components.insert(info.components.end(), {dit, vae});
  if (m.transformer_2) {
    dit.options.push_back({"expert", fmt::format("high noise: timesteps from {:g} on", 1000 * m.boundary)});
    ComponentInfo low = describe("transformer_2", *m.transformer_2);
    low.options = {{"expert", fmt::format("low noise: timesteps below {:g}", 1000 * m.boundary)}};
    info.components = {info.components.front(), dit, low, vae};
  }
  if (m.image_encoder)
    info.components.insert(info.components.begin() + (m.text_encoder ? 1 : 0),
                           describe_image_encoder(*m.image_encoder, m.clip));

  if (m.family->actions)
    return info;  // it takes no request (world_defaults in api/world.h has a world's own)
  const VideoRequest& d = m.defaults;
  info.defaults = {{"size", fmt::format("{}x{}", *d.width, *d.height)},
                   {"frames", fmt::format("{}", *d.frames)},
                   {"fps", fmt::format("{:g}", *d.fps)},
                   {"steps", fmt::format("{}", *d.steps)},
                   {"guidance", fmt::format("{:g}", *d.guidance)},
                   {"shift", fmt::format("{:g}", *d.shift)},
                   {"sampler", *d.sampler},
                   {"grid", *d.grid}};
  if (m.transformer_2 && d.guidance_2)
    info.defaults.insert(info.defaults.begin() + 5, {"guidance-2", fmt::format("{:g}", *d.guidance_2)});
  return info;
}

}  // namespace tachy
