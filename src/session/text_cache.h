// Prompt embeddings kept on disk: what the text encoder made of some token ids, so that it need not be loaded
// for them again.
//
// One safetensors file an embedding, FOLDER/KEY.safetensors: `ids` [n] i64 and `text` [n, d] f32. KEY is the
// SHA-256 of all that its bits depend on: the encoder (encoder_fingerprint), how it was run (program, device,
// arithmetic, libraries) and the ids. A file is used only if it says all of this again, its values
// are finite and their SHA-256 is the one it carries; any other is passed over with a warning and replaced.
// Written under a name of its own, then renamed: several processes may share a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

// SHA-256 over the text encoder's options, the size and time of last change of each of its files, the names,
// dtypes and shapes of all tensors, and of each tensor the first, the middle and the last 4 KiB (all of it up
// to 12 KiB); of one that is made when it is read, its encoding and its first, middle and last row. Some milliseconds for 11 GB. What it does not see: other bytes changed within a tensor by
// something that also restores the file's time.
std::string encoder_fingerprint(const ModelBundle& model);

// This version and the program's size and time: another build may add in another order.
std::string program_identity();

class TextCache {
 public:
  // Makes the folder if only its last part is missing. Throws io, naming `text_cache`, where that fails.
  explicit TextCache(std::filesystem::path folder);

  // `how`: all that the result depends on beside the model and the ids.
  struct Key {
    std::string encoder, how;
    std::vector<int64_t> ids;
    int64_t width = 0;  // d
  };
  // [n, d] float32, or nothing.
  std::optional<std::vector<float>> find(const Key& key) const;
  // A failure (a full disk, a folder that may only be read) is a warning: the run itself needs no cache.
  void keep(const Key& key, std::span<const float> text) const;

  std::filesystem::path file_of(const Key& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tachy
