#include "catalog/find_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "models/wan/infer_config.h"
#include "models/wan/relatives.h"
#include "weights/gguf/gguf_parts.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 4096, kMostShown = 12;
constexpr int kMostLevels = 6;
constexpr std::string_view kEndings[] = {".safetensors", ".gguf", ".pth", ".pt", ".bin"};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns "…/models" for "…/models/diffusion_models/wan/x.safetensors", and an empty path for other places.
fs::path models_folder(const fs::path& transformer) {
  std::error_code ignored;
  fs::path folder = fs::absolute(transformer, ignored).lexically_normal().parent_path();
  for (int level = 0; level < kMostLevels && folder.has_relative_path();
       ++level, folder = folder.parent_path())
    if (folder.filename() == "diffusion_models" || folder.filename() == "unet") return folder.parent_path();
  return {};
}

std::vector<fs::path> weights_under(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  const auto options =
      fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator item(folder, options, error), end;
       !error && item != end && out.size() < kMostFiles; item.increment(error)) {
    if (item.depth() >= kMostLevels) item.disable_recursion_pending();
    std::error_code ignored;
    if (item->is_regular_file(ignored) && !is_later_gguf_part(item->path().filename().string()) &&
        std::find(std::begin(kEndings), std::end(kEndings), item->path().extension().string()) !=
            std::end(kEndings))
      out.push_back(item->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string names(const std::vector<fs::path>& files) {
  std::string out;
  for (size_t i = 0; i < std::min(files.size(), kMostShown); ++i) out += (i ? ", " : "") + files[i].string();
  return files.size() > kMostShown ? fmt::format("{} +{} more", out, files.size() - kMostShown) : out;
}

// Describes a kind of part to look for.
struct Search {
  const char* field;
  const char* what;  // "a umT5 text encoder whose embeddings have 4096 channels"
  const char* example;
  std::vector<const char*> folders;
  std::function<bool(const fs::path&)> fits;
};

fs::path only_one(const fs::path& transformer, const Search& search) {
  const fs::path models = models_folder(transformer);
  check(!models.empty(), ErrorCode::not_found,
        "`{}`: {} is a transformer by itself, and needs {}: name it ({}, or a model's folder that has one), "
        "or put both into ComfyUI's folders (diffusion_models/ beside {}/)",
        search.field, transformer.string(), search.what, search.example, search.folders.front());
  std::vector<fs::path> all, fitting;
  for (const char* folder : search.folders)
    if (is_folder(models / folder))
      for (fs::path& file : weights_under(models / folder)) all.push_back(std::move(file));
  for (const fs::path& file : all) {
    try {
      if (search.fits(file)) fitting.push_back(file);
    } catch (const Error& e) {
      log_topic("load", "`{}`: {} is not used: {}", search.field, file.string(), e.message());
    }
  }
  check(!fitting.empty(), ErrorCode::not_found,
        "`{}`: none of the {} files in {} is {}{}{}; name the file ({})", search.field, all.size(),
        (models / search.folders.front()).string(), search.what, all.empty() ? "" : ": ", names(all),
        search.example);
  check(fitting.size() == 1, ErrorCode::invalid_argument, "`{}`: several files fit: {}; name one of them",
        search.field, names(fitting));
  log_topic("load", "`{}`: {}", search.field, fitting.front().string());
  return fitting.front();
}

}  // namespace

ComponentFiles find_text_encoder(const fs::path& transformer, const WanConfig& config) {
  const std::string what =
      fmt::format("a umT5 text encoder whose embeddings have {} channels", config.text_dim);
  return text_encoder_at(only_one(transformer, {.field = "text_encoder",
                                                .what = what.c_str(),
                                                .example = "umt5_xxl_fp16.safetensors",
                                                .folders = {"text_encoders", "clip"},
                                                .fits = [&](const fs::path& file) {
                                                  const auto source = umt5_source(open_weights(file)).source;
                                                  return is_umt5_encoder(*source) &&
                                                         Umt5Config::from_tensors(*source).d_model ==
                                                             config.text_dim;
                                                }}));
}

ComponentFiles find_vae(const fs::path& transformer, const WanConfig& config) {
  const std::string what = fmt::format("a Wan VAE of latents with {} channels", config.out_channels);
  return vae_at(only_one(
      transformer,
      {.field = "vae",
       .what = what.c_str(),
       .example = config.out_channels == 48 ? "wan2.2_vae.safetensors" : "wan_2.1_vae.safetensors",
       .folders = {"vae"},
       .fits = [&](const fs::path& file) {
         const auto source = vae_source(open_weights(file)).source;
         return is_wan_vae(*source) && source->find("decoder.conv_in.weight")->dims[1] == config.out_channels;
       }}));
}

ComponentFiles find_image_encoder(const fs::path& transformer, const WanConfig& config) {
  const std::string what =
      fmt::format("a CLIP vision model whose embeddings have {} channels", config.image_dim);
  return image_encoder_at(
      only_one(transformer, {.field = "image_encoder",
                             .what = what.c_str(),
                             .example = "clip_vision_h.safetensors",
                             .folders = {"clip_vision"},
                             .fits = [&](const fs::path& file) {
                               const auto source = clip_vision_source(open_weights(file)).source;
                               return is_clip_vision(*source) &&
                                      source->find("vision_model.embeddings.class_embedding")->dims ==
                                          std::vector<int64_t>{config.image_dim};
                             }}));
}

std::vector<std::string> missing_parts(const fs::path& transformer, const PartPaths& parts) {
  const WanConfig config = open_transformer(transformer).config;
  refuse_other_inputs(config, transformer.string());
  std::vector<std::string> out;
  const auto attempt = [&](const char* field, auto&& body) {
    try {
      naming(field, body);
    } catch (const Error& e) {
      out.push_back(e.message());
    }
  };
  if (!parts.transformer_2.empty())
    attempt("`transformer_2`", [&] { open_transformer(parts.transformer_2); });
  ComponentFiles text;
  attempt("`text_encoder`", [&] {
    text = parts.text_encoder.empty() ? find_text_encoder(transformer, config)
                                      : text_encoder_at(parts.text_encoder);
    const auto source = read_text_encoder(text).source;
    check(!parts.tokenizer.empty() || carries_tokenizer(*source) || !tokenizer_beside(text.weights).empty(),
          ErrorCode::not_found,
          "`tokenizer`: {} has none; name tokenizer.json, spiece.model or a folder that has one",
          source->files_text());
  });
  attempt("`vae`", [&] { read_vae(parts.vae.empty() ? find_vae(transformer, config) : vae_at(parts.vae)); });
  if (!parts.image_encoder.empty())
    attempt("`image_encoder`", [&] { open_image_encoder(parts.image_encoder); });
  return out;
}

fs::path tokenizer_beside(const fs::path& text_encoder) {
  const fs::path folder = text_encoder.parent_path();
  for (const fs::path& place :
       {folder, folder / "tokenizer", folder.parent_path() / "tokenizer", folder / "google" / "umt5-xxl"})
    for (const char* name : {"tokenizer.json", "spiece.model"}) {
      std::error_code ignored;
      if (fs::is_regular_file(place / name, ignored)) return place;
    }
  return {};
}

const TensorSource::Entry* carried_tokenizer(const TensorSource& text_encoder) {
  return text_encoder.find("spiece_model");
}

bool carries_tokenizer(const TensorSource& text_encoder) {
  return carried_tokenizer(text_encoder) || text_encoder.metadata().contains("tokenizer.ggml.model");
}

}  // namespace tachy
