#include "inspect/info.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "pipelines/model_bundle.h"

namespace tachy {
namespace {

ComponentInfo describe(const char* name, const TensorSource& source) {
  ComponentInfo out{.name = name, .file = source.files_text(), .bytes = source.mapped_bytes()};
  std::map<std::string, int64_t> dtypes;
  for (const auto& entry : source.entries()) {
    uint64_t count = 1;
    for (int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
    out.parameters += count;
    ++out.tensors;
    ++dtypes[std::string(dtype_name(entry.dtype))];
  }
  std::vector<std::pair<int64_t, std::string>> ordered;
  for (const auto& [dtype, count] : dtypes) ordered.emplace_back(-count, dtype);
  std::sort(ordered.begin(), ordered.end());
  for (const auto& [count, dtype] : ordered)
    out.dtypes.push_back(fmt::format("{} ({} tensors)", dtype, -count));
  return out;
}

}  // namespace

ModelInfo describe_model(const std::filesystem::path& path) {
  const ModelBundle m = ModelBundle::open(path);
  ModelInfo info{.path = path.string(),
                 .kind = m.kind,
                 .layout = m.files.layout == ModelFiles::Layout::diffusers ? "diffusers" : "original"};

  ComponentInfo text = describe("text encoder", *m.text_encoder);
  text.options = {{"layers", fmt::format("{}", m.text.num_layers)},
                  {"width", fmt::format("{}", m.text.d_model)},
                  {"heads", fmt::format("{} of {}", m.text.num_heads, m.text.d_kv)},
                  {"feed-forward", fmt::format("{}", m.text.d_ff)},
                  {"vocabulary", fmt::format("{}", m.text.vocab_size)}};
  ComponentInfo dit = describe("transformer", *m.transformer);
  dit.options = {{"layers", fmt::format("{}", m.dit.num_layers)},
                 {"width", fmt::format("{}", m.dit.dim())},
                 {"heads", fmt::format("{} of {}", m.dit.num_heads, m.dit.head_dim)},
                 {"feed-forward", fmt::format("{}", m.dit.ffn_dim)},
                 {"channels", fmt::format("{} in, {} out", m.dit.in_channels, m.dit.out_channels)},
                 {"patch", fmt::format("{}x{}x{}", m.dit.patch_t, m.dit.patch_h, m.dit.patch_w)},
                 {"image branch", m.dit.image_branch() ? "yes" : "no"}};
  ComponentInfo vae = describe("vae", *m.vae);
  vae.options = {{"base width", fmt::format("{}", m.vae_config.base_dim)},
                 {"latent channels", fmt::format("{}", m.vae_config.z_dim)},
                 {"stride", fmt::format("{}x{}x{}", m.vae_config.temporal_stride(),
                                        m.vae_config.spatial_stride(), m.vae_config.spatial_stride())}};
  info.components = {text, dit, vae};
  if (m.transformer_2) {
    dit.options.push_back({"expert", fmt::format("high noise: timesteps from {:g} on", 1000 * m.boundary)});
    ComponentInfo low = describe("transformer_2", *m.transformer_2);
    low.options = {{"expert", fmt::format("low noise: timesteps below {:g}", 1000 * m.boundary)}};
    info.components = {text, dit, low, vae};
  }

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
