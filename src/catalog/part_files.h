// Opens one part of a model: its config, and its tensors under the names that models read. A part is a
// component's folder, a single file, or a part of a whole model's folder.
//
// The config of a single file is looked for in this order: beside it, as a .json file of the same name or as
// config.json; in its header's metadata, as "config"; in the shapes of its tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/clip_preparation.h"
#include "models/clip_vision/clip_vision_config.h"
#include "models/umt5/umt5_config.h"
#include "models/wan/wan_config.h"
#include "models/wan_vae/vae_config.h"
#include "models/wav2vec2/wav2vec2_config.h"
#include "weights/model_layout.h"
#include "weights/tensor_source.h"

namespace tachy {

struct TransformerFiles {
  std::shared_ptr<TensorSource> source;
  WanConfig config;
  bool original = false;  // the file uses the original repository's names
};
TransformerFiles read_transformer(const ComponentFiles& files, FileAccess access = FileAccess::map);
TransformerFiles open_transformer(const std::filesystem::path& path);
// Adds the tensors of InfiniteTalk's file to a transformer that has no audio branch yet.
void add_infinitetalk(TransformerFiles& transformer, const std::filesystem::path& path,
                      FileAccess access = FileAccess::map);

struct TextEncoderFiles {
  std::shared_ptr<TensorSource> source;
  Umt5Config config;
};
TextEncoderFiles read_text_encoder(const ComponentFiles& files, FileAccess access = FileAccess::map);
TextEncoderFiles open_text_encoder(const std::filesystem::path& path);

struct VaeFiles {
  std::shared_ptr<TensorSource> source;
  VaeConfig config;
};
VaeFiles read_vae(const ComponentFiles& files, FileAccess access = FileAccess::map);
VaeFiles open_vae(const std::filesystem::path& path);

struct ImageEncoderFiles {
  std::shared_ptr<TensorSource> source;
  ClipVisionConfig config;
  // Read from its image processor's config, which is beside the file or beside image_encoder/.
  ClipPreparation preparation;
};
ImageEncoderFiles read_image_encoder(const ComponentFiles& files, FileAccess access = FileAccess::map);
ImageEncoderFiles open_image_encoder(const std::filesystem::path& path);

struct AudioEncoderFiles {
  std::shared_ptr<TensorSource> source;
  Wav2Vec2Config config;
  // Whether its preprocessor_config.json asks for sounds with mean 0 and variance 1; empty if there is no
  // such file.
  std::optional<bool> normalise;
};
// Opens a component's folder or a single file.
AudioEncoderFiles open_audio_encoder(const std::filesystem::path& path);

// These find a part that the user has named.
ComponentFiles transformer_at(const std::filesystem::path& path);
ComponentFiles text_encoder_at(const std::filesystem::path& path);
ComponentFiles vae_at(const std::filesystem::path& path);
ComponentFiles image_encoder_at(const std::filesystem::path& path);

}  // namespace tachy
