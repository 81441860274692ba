// A model opened for a pipeline, from a folder or a file: its parts, the config of each, and defaults for
// everything that a user may leave out. Nothing large is read here; component sources are mapped when they
// are needed.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "catalog/find_parts.h"
#include "request/request.h"
#include "weights/model_layout.h"
#include "weights/tensor_source.h"

namespace tachy {

// How a model takes a picture: as the first latent frame, which stays while the others are denoised (2.2
// TI2V), or as mask and encoded video in channels of their own (2.1 and 2.2 image-to-video,
// first-last-frame).
enum class ImageInput { none, first_frame, channels };

struct ModelBundle {
  ModelFiles files;
  // Under diffusers' and Hugging Face's names. The text encoder is null if the transformer reads no text
  // (Matrix-Game 2).
  std::shared_ptr<TensorSource> transformer, text_encoder, vae;
  // The low-noise expert of a model with two (2.2 A14B); `transformer` is then the high-noise one, which
  // predicts at timesteps from 1000 · boundary on. Null for models with one transformer.
  std::shared_ptr<TensorSource> transformer_2;
  double boundary = 0;
  // CLIP's vision model, for transformers with an image branch. If it is null, the pictures' embeddings must
  // be given, and no_image_encoder says what is missing.
  std::shared_ptr<TensorSource> image_encoder;
  std::string no_image_encoder;
  ClipVisionConfig clip;
  ClipPreparation clip_preparation;
  // The encoder of speech, for transformers with InfiniteTalk's audio branch; null if none was named.
  // audio_standardised: whether it wants sounds with mean 0 and variance 1.
  std::shared_ptr<TensorSource> audio_encoder;
  Wav2Vec2Config audio;
  bool audio_standardised = false;
  WanConfig dit;  // for both transformers
  Umt5Config text;
  VaeConfig vae_config;
  VideoRequest defaults;  // with every optional filled in
  ImageInput image_input = ImageInput::none;
  std::string kind;                    // "text-to-video", "image-to-video", "text-and-image-to-video", …
  std::vector<float> preview_factors;  // [z + 1, 3]: latents to RGB (last row: offset), or empty

  // path: a model's folder, or a transformer's file. parts: replacements for the model's own parts.
  static ModelBundle open(const std::filesystem::path& path, FileAccess access = FileAccess::map,
                          const PartPaths& parts = {});

  // Whether the original repository's defaults apply: the model has its layout, or is a single file with its
  // names.
  bool original = false;
  bool reads_text() const { return dit.text_dim > 0; }
  int experts() const { return transformer_2 ? 2 : 1; }
  const std::shared_ptr<TensorSource>& transformer_of(int part) const {
    return part == 0 ? transformer : transformer_2;
  }
  static const char* transformer_name(int part) { return part == 0 ? "transformer" : "transformer_2"; }
  uint64_t mapped_transformer_bytes() const;
  uint64_t read_bytes() const;  // size of the files that were read into memory instead of mapped

  int64_t size_multiple() const;  // pixel sizes must be multiples of this
};

}  // namespace tachy
