// A model folder opened for a pipeline: its files, the config of each part and the defaults a user may leave
// out. Nothing large is read here; component sources are mapped when asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/umt5/umt5_config.h"
#include "models/wan/wan_config.h"
#include "models/wan_vae/vae_config.h"
#include "pipelines/gpu_mode.h"
#include "pipelines/level.h"
#include "pipelines/request.h"
#include "weights/model_layout.h"
#include "weights/tensor_source.h"

namespace tachy {

// How a model takes a picture: as the first latent frame, kept while the others are denoised (2.2 TI2V), or
// as mask and encoded video in channels of their own (2.1 and 2.2 image-to-video, first-last-frame).
enum class ImageInput { none, first_frame, channels };

struct ModelBundle {
  ModelFiles files;
  std::shared_ptr<TensorSource> transformer, text_encoder, vae;  // under diffusers / HF names
  // Of two experts (2.2 A14B) the low-noise one; `transformer` is then the high-noise one, which predicts at
  // timesteps from 1000 · boundary on. Null for models of one transformer.
  std::shared_ptr<TensorSource> transformer_2;
  double boundary = 0;
  WanConfig dit;  // of both
  Umt5Config text;
  VaeConfig vae_config;
  VideoRequest defaults;  // every optional filled
  ImageInput image_input = ImageInput::none;
  std::string kind;                    // "text-to-video", "image-to-video", "text-and-image-to-video", …
  std::vector<float> preview_factors;  // [z + 1, 3]: latents to RGB (last row: offset), or empty

  static ModelBundle open(const std::filesystem::path& path, FileAccess access = FileAccess::map);

  int experts() const { return transformer_2 ? 2 : 1; }
  const std::shared_ptr<TensorSource>& transformer_of(int part) const {
    return part == 0 ? transformer : transformer_2;
  }
  static const char* transformer_name(int part) { return part == 0 ? "transformer" : "transformer_2"; }
  uint64_t mapped_transformer_bytes() const;
  uint64_t read_bytes() const;  // of files that were read into memory instead of mapped

  int64_t size_multiple() const;  // pixel sizes must be multiples of this
};

// Differs when a part's options, weights or tokenizer differ; the folder's name and place play no part.
std::string fingerprint(const ModelBundle& model);

// Opens one component; a whole model folder gives its part. Used by the single-stage runner.
struct TransformerFiles {
  std::shared_ptr<TensorSource> source;
  WanConfig config;
};
TransformerFiles open_transformer(const std::filesystem::path& path);
struct TextEncoderFiles {
  std::shared_ptr<TensorSource> source;
  Umt5Config config;
};
TextEncoderFiles open_text_encoder(const std::filesystem::path& path);
struct VaeFiles {
  std::shared_ptr<TensorSource> source;
  VaeConfig config;
};
VaeFiles open_vae(const std::filesystem::path& path);

// Fills the request from the model's defaults and checks it.
// Errors name the option, its value and what would work.
// gpu: how a GPU is to compute; null on the CPU.
ResolvedRequest resolve(const ModelBundle& model, const VideoRequest& request, const GpuMode* gpu = nullptr);

// "f32" or "bf16"; throws invalid_argument for others.
Compute parse_compute(const std::string& dtype);
// How a resolved request computes.
Mode mode_of(const VideoRequest& resolved);

}  // namespace tachy
