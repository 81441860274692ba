// Paths of parts of a model that the user names separately. This header uses only standard types, because it
// is part of the public interface (api/tachyscope.h).
#pragma once

#include <filesystem>

namespace tachy {

// Each is a file, a component's folder, or the folder of a model that has this part (for the tokenizer, its
// file or the folder that holds it). If empty, the model's own part is used.
struct PartPaths {
  std::filesystem::path transformer_2, text_encoder, vae, tokenizer, image_encoder;
  // For talking photos. Each is a file, or the encoder's folder.
  std::filesystem::path infinitetalk, audio_encoder;
  bool operator==(const PartPaths&) const = default;
};

}  // namespace tachy
