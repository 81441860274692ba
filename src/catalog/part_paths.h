// Paths of a model's parts that are named separately. Uses standard types only: this header is part of the
// public interface (api/tachyscope.h).
#pragma once

#include <filesystem>

namespace tachy {

// A file, a component's folder, or the folder of a model that has this part (for the tokenizer: its file, or
// a folder that holds it). Empty means the model's own part.
struct PartPaths {
  std::filesystem::path transformer_2, text_encoder, vae, tokenizer, image_encoder;
  // For talking photos: a file for each, or the encoder's folder.
  std::filesystem::path infinitetalk, audio_encoder;
  bool operator==(const PartPaths&) const = default;
};

}  // namespace tachy
