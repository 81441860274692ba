// Where the parts of a model lie that are named by themselves. Standard types only: this header is part of the
// public interface (api/tachyscope.h).
#pragma once

#include <filesystem>

namespace tachy {

// A file, a component's folder, or a model's folder whose part it is (the tokenizer: its file, or a folder that
// holds it). Empty: the model's own.
struct PartPaths {
  std::filesystem::path transformer_2, text_encoder, vae, tokenizer, image_encoder;
  std::filesystem::path infinitetalk,
      audio_encoder;  // of a talking photo: a file each, or the encoder's folder
  bool operator==(const PartPaths&) const = default;
};

}  // namespace tachy
