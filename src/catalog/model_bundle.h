// A model that is opened for a pipeline from a folder or a file: its parts, their configs, and defaults for
// everything that a user may leave out. Nothing large is read here, and a component's tensors are mapped only
// when they are needed.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "catalog/families/family.h"
#include "catalog/find_parts.h"
#include "request/request.h"
#include "request/step_cache_config.h"
#include "weights/model_layout.h"
#include "weights/tensor_source.h"

namespace tachy {

struct ModelBundle {
  ModelFiles files;
  // These have the names of diffusers and Hugging Face. The text encoder is null if the transformer reads no
  // text (Matrix-Game 2).
  std::shared_ptr<TensorSource> transformer, text_encoder, vae;
  // The low-noise expert of a model with two (2.2 A14B); `transformer` is then the high-noise one, which
  // predicts at timesteps from 1000 · boundary on. Null for models with one transformer.
  std::shared_ptr<TensorSource> transformer_2;
  double boundary = 0;
  // CLIP's vision model, for transformers with an image branch. If it is null, the caller must give the
  // embeddings of the pictures, and no_image_encoder says what is missing.
  std::shared_ptr<TensorSource> image_encoder;
  std::string no_image_encoder;
  ClipVisionConfig clip;
  ClipPreparation clip_preparation;
  // The speech encoder for transformers with InfiniteTalk's audio branch, or null if none was named.
  // audio_standardised says whether it expects sounds with mean 0 and variance 1.
  std::shared_ptr<TensorSource> audio_encoder;
  Wav2Vec2Config audio;
  bool audio_standardised = false;
  WanConfig dit;  // applies to both transformers
  Umt5Config text;
  VaeConfig vae_config;
  VideoRequest defaults;               // every optional has a value
  const Family* family = nullptr;      // set if the model has a transformer
  std::vector<float> preview_factors;  // [z + 1, 3]: from latents to RGB (last row: offset), or empty

  StepCacheValues step_caches;  // those that the model brings

  // `path` is a model's folder or a transformer's file. `parts` replace parts of the model.
  static ModelBundle open(const std::filesystem::path& path, FileAccess access = FileAccess::map,
                          const PartPaths& parts = {});

  // Says whether the original repository's defaults apply, because the model has its layout or is a single
  // file with its names.
  bool original = false;
  const char* kind() const { return family->kind; }
  bool reads_text() const { return dit.text_dim > 0; }
  int experts() const { return transformer_2 ? 2 : 1; }
  const std::shared_ptr<TensorSource>& transformer_of(int part) const {
    return part == 0 ? transformer : transformer_2;
  }
  static const char* transformer_name(int part) { return part == 0 ? "transformer" : "transformer_2"; }
  uint64_t mapped_transformer_bytes() const;
  uint64_t read_bytes() const;  // size of the files that are read into memory and not mapped

  int64_t size_multiple() const;  // the sides of a video in pixels must be multiples of this
};

}  // namespace tachy
