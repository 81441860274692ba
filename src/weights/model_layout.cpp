// Looks for every component under the names that its repositories use. If one is missing, an error lists the
// names.
#include "weights/model_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/disk.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "weights/hub_cache.h"
#include "weights/json_file.h"
#include "weights/tensor_source.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

using Json = std::shared_ptr<const nlohmann::json>;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Json json_of(const fs::path& path) { return std::make_shared<const nlohmann::json>(read_json(path)); }
Json json_if_there(const fs::path& path) { return lies_at(path) ? json_of(path) : nullptr; }

bool is_wan_config(const nlohmann::json& config) {
  return config.contains("model_type") && config.contains("dim") && config.contains("num_layers");
}

fs::path tokenizer_in(const fs::path& folder) {
  if (!is_file(folder / "tokenizer.json") && !is_file(folder / "spiece.model")) refuse_dangling_link(folder);
  check(is_file(folder / "tokenizer.json") || is_file(folder / "spiece.model"), ErrorCode::not_found,
        "{}: tokenizer: expected tokenizer.json or spiece.model in {}", folder.parent_path().string(),
        folder.string());
  return folder;
}

// Says whether model_index.json has [library, class] for a component; [null, null] means that it is missing.
bool is_listed(const nlohmann::json& index, const char* name) {
  const auto it = index.find(name);
  return it != index.end() && it->is_array() && it->size() == 2 && !(*it)[1].is_null();
}

ComponentFiles required(const fs::path& root, const char* name) {
  check(is_folder(root / name), ErrorCode::not_found, "{}: {}: no such folder (the model is incomplete)",
        root.string(), name);
  return open_component(root / name);
}

ModelFiles open_diffusers(const fs::path& root) {
  ModelFiles m{.layout = ModelFiles::Layout::diffusers, .root = root};
  m.model_index = json_of(root / "model_index.json");
  m.transformer = required(root, "transformer");
  if (is_listed(*m.model_index, "transformer_2")) m.transformer_2 = required(root, "transformer_2");
  m.text_encoder = required(root, "text_encoder");
  m.vae = required(root, "vae");
  if (is_listed(*m.model_index, "image_encoder")) m.image_encoder = required(root, "image_encoder");
  m.tokenizer = tokenizer_in(root / "tokenizer");
  m.scheduler = json_if_there(root / "scheduler" / "scheduler_config.json");
  m.generation_config = json_if_there(root / "generation_config.json");
  return m;
}

// Returns the file of `root` that begins with `stem` and has an extension of weight files.
fs::path weights_like(const fs::path& root, std::string_view stem, std::string_view end_of_stem = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::path& item : list_folder(root, error)) {
    const auto name = item.filename().string();
    const auto ending = item.extension();
    if (name.starts_with(stem) && item.stem().string().ends_with(end_of_stem) && is_file(item) &&
        (ending == ".pth" || ending == ".pt" || ending == ".safetensors"))
      found.push_back(item);
  }
  check(!error, ErrorCode::io, "{}: cannot list the folder: {}", root.string(), error.message());
  return found.empty() ? fs::path() : found.front();
}

// Opens the file of a component; `expected` describes it in the error.
ComponentFiles original_file(const fs::path& root, const char* component, const char* expected,
                             std::string_view stem, std::string_view end_of_stem = "") {
  const auto path = weights_like(root, stem, end_of_stem);
  if (path.empty()) refuse_dangling_link(root);
  check(!path.empty(), ErrorCode::not_found, "{}: {}: expected {}", root.string(), component, expected);
  return {path, nullptr};
}

// Tells the transformer's weights from those of the VAE and CLIP; returns an empty path if there are none or
// the choice is unclear.
fs::path transformer_in(const fs::path& folder) {
  for (const char* usual :
       {"diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.safetensors.index.json"})
    if (is_file(folder / usual)) return folder / usual;
  std::error_code ignored;
  fs::path found;
  for (const fs::path& item : list_folder(folder, ignored)) {
    const std::string name = item.filename().string();
    if (item.extension() != ".safetensors" || name.starts_with("Wan2.") || name.starts_with("models_clip_"))
      continue;
    if (!found.empty()) return {};
    found = item;
  }
  return found;
}

// Matrix-Game 2 has neither a text encoder nor a tokenizer. Its VAE and CLIP are one folder above its
// variants.
ModelFiles open_steered(const fs::path& root) {
  ModelFiles m{.layout = ModelFiles::Layout::original, .root = root};
  m.transformer = {transformer_in(root), json_of(root / "config.json")};
  check(m.transformer.present(), ErrorCode::not_found,
        "{}: transformer: expected diffusion_pytorch_model.safetensors or a single .safetensors file beside "
        "config.json",
        root.string());
  find_original_parts(m, root);
  m.generation_config = json_if_there(root / "generation_config.json");
  return m;
}

bool follows_actions(const fs::path& weights) {
  if (weights.empty()) return false;
  const auto source = open_weights(weights);
  return std::ranges::any_of(source->entries(), [](const TensorSource::Entry& entry) {
    return entry.name.ends_with(".action_model.keyboard_embed.0.weight");
  });
}

// Opens a folder of Matrix-Game 2 as published. It has no config, so the tensors tell what it is.
std::optional<ModelFiles> open_published_actions(const fs::path& root) {
  for (const fs::path& folder : {root, root / "base_distilled_model"}) {
    if (!is_folder(folder) || is_file(folder / "config.json")) continue;
    const fs::path weights = transformer_in(folder);
    if (!follows_actions(weights)) continue;
    ModelFiles m{.layout = ModelFiles::Layout::single, .root = root};
    m.transformer = {.weights = weights, .config = nullptr, .alone = true};
    find_original_parts(m, folder);
    m.generation_config = json_if_there(folder / "generation_config.json");
    return m;
  }
  return std::nullopt;
}

ModelFiles open_original(const fs::path& root) {
  ModelFiles m{.layout = ModelFiles::Layout::original, .root = root};
  if (is_folder(root / "high_noise_model")) {
    m.transformer = required(root, "high_noise_model");
    m.transformer_2 = required(root, "low_noise_model");
  } else {
    m.transformer = open_component(root);
  }
  m.text_encoder = original_file(root, "text encoder", "models_t5_umt5-xxl-enc-bf16.pth", "models_t5_");
  m.vae = original_file(root, "VAE", "Wan2.1_VAE.pth or Wan2.2_VAE.pth", "Wan2.", "_VAE");
  if (const auto clip = weights_like(root, "models_clip_"); !clip.empty()) m.image_encoder = {clip, nullptr};
  m.tokenizer = tokenizer_in(root / "google" / "umt5-xxl");
  m.generation_config = json_if_there(root / "generation_config.json");
  return m;
}

}  // namespace

void find_original_parts(ModelFiles& m, const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& place : {folder, fs::absolute(folder, ignored).lexically_normal().parent_path()}) {
    if (!is_folder(place)) continue;
    if (!m.vae.present())
      if (const auto vae = weights_like(place, "Wan2.", "_VAE"); !vae.empty()) m.vae = {vae, nullptr};
    if (!m.image_encoder.present())
      if (const auto clip = weights_like(place, "models_clip_"); !clip.empty())
        m.image_encoder = {clip, nullptr};
  }
}

const char* layout_name(ModelFiles::Layout layout) {
  return layout == ModelFiles::Layout::diffusers  ? "diffusers"
         : layout == ModelFiles::Layout::original ? "original"
                                                  : "single file";
}

bool is_component_folder(const fs::path& named) {
  const fs::path folder = snapshot_of(named);
  if (is_file(folder / "model_index.json") || !is_file(folder / "config.json") ||
      find_weights(folder).empty())
    return false;
  // The root of an original model contains its transformer but is a whole model. Matrix-Game 2's has no text
  // encoder.
  if (!weights_like(folder, "Wan2.", "_VAE").empty() &&
      read_json(folder / "config.json").contains("action_config"))
    return false;
  return !is_folder(folder / "google") && weights_like(folder, "models_t5_").empty();
}

ComponentFiles open_component(const fs::path& named) {
  const fs::path folder = snapshot_of(named);
  check(is_folder(folder), ErrorCode::not_found, "{}: {}", folder.string(), why_missing(folder, "folder"));
  if (!is_file(folder / "config.json") || find_weights(folder).empty()) refuse_dangling_link(folder);
  check(is_file(folder / "config.json"), ErrorCode::not_found, "{}: expected config.json", folder.string());
  ComponentFiles out{find_weights(folder), json_of(folder / "config.json")};
  check(out.present(), ErrorCode::not_found,
        "{}: expected weights: diffusion_pytorch_model.safetensors, model.safetensors, or an .index.json "
        "with its shards",
        folder.string());
  return out;
}

ModelFiles open_model(const fs::path& named) {
  std::error_code ignored;
  const fs::path root = snapshot_of(named);
  check(fs::exists(root, ignored), ErrorCode::not_found, "{}: {}", root.string(),
        why_missing(root, "folder or file"));
  require(is_folder(root), "{}: expected a model folder, got a file", root.string());
  if (is_file(root / "model_index.json")) return open_diffusers(root);
  if (is_folder(root / "high_noise_model")) return open_original(root);
  if (is_file(root / "config.json") && is_wan_config(read_json(root / "config.json")))
    return read_json(root / "config.json").contains("action_config") ? open_steered(root)
                                                                     : open_original(root);
  if (auto files = open_published_actions(root)) return std::move(*files);
  refuse_dangling_link(root);
  fail(ErrorCode::not_found,
       "{}: expected a model: model_index.json (diffusers layout), or config.json with model_type, dim and "
       "num_layers or high_noise_model/ (original Wan layout){}",
       root.string(), is_file(root / "config.json") ? "; this looks like a single component" : "");
}

}  // namespace tachy
