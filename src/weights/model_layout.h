// Finds the parts of a model folder by its contents.
//
// diffusers: model_index.json; transformer/ (transformer_2/) text_encoder/ tokenizer/ vae/ scheduler/ …
// original:  config.json with model_type beside diffusion_pytorch_model*.safetensors (2.2 A14B:
//            high_noise_model/, low_noise_model/), models_t5_umt5-xxl-enc-bf16.pth,
//            Wan2.1_VAE.pth or Wan2.2_VAE.pth, google/umt5-xxl/
//            Matrix-Game 2: action_config in config.json, or no config but tensors of action modules (also in
//            base_distilled_model/); VAE and CLIP there or one folder above, no text encoder
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace tachy {

// `weights` is the path for open_weights(). The config may be null: the original text encoder and VAE have
// none.
struct ComponentFiles {
  std::filesystem::path weights;  // a folder or a file; empty when the component is absent
  std::shared_ptr<const nlohmann::json> config;
  bool alone = false;  // the user named this file by itself, so its tensors tell what no config says
  bool present() const { return !weights.empty(); }
};

struct ModelFiles {
  // `single` means that the transformer is a file by itself.
  enum class Layout { diffusers, original, single };
  Layout layout = Layout::diffusers;
  std::filesystem::path root;
  ComponentFiles transformer;    // A14B: the high-noise expert
  ComponentFiles transformer_2;  // A14B: the low-noise expert
  ComponentFiles text_encoder;
  ComponentFiles vae;
  ComponentFiles image_encoder;  // 2.1 image-to-video (CLIP)
  // A folder with tokenizer.json or spiece.model, or one of these files. It is empty if the text encoder's
  // file contains the tokenizer.
  std::filesystem::path tokenizer;
  std::shared_ptr<const nlohmann::json> model_index;        // diffusers only
  std::shared_ptr<const nlohmann::json> scheduler;          // scheduler_config.json; null when absent
  std::shared_ptr<const nlohmann::json> generation_config;  // the project's own defaults; null when absent
};

const char* layout_name(ModelFiles::Layout layout);  // "diffusers", "original" or "single file"

// Throws not_found with the component and every name that was looked for.
ModelFiles open_model(const std::filesystem::path& path);

// Fills in the VAE and the image encoder that `files` lacks, from the folder or the one above it, under the
// names of the original repositories.
void find_original_parts(ModelFiles& files, const std::filesystem::path& folder);

// Opens the folder of a single component (config.json and weights). Throws not_found.
ComponentFiles open_component(const std::filesystem::path& folder);
bool is_component_folder(const std::filesystem::path& folder);

}  // namespace tachy
