// Prompt embeddings kept on disk, so that the text encoder need not be loaded again for the same token ids.
//
// Each embedding is one safetensors file, FOLDER/KEY.safetensors: `ids` [n] i64 and `text` [n, d] f32. KEY is
// the SHA-256 of all that its bits depend on: the encoder (encoder_fingerprint), how it was run (program,
// device, arithmetic, libraries) and the ids. A file is used only if it repeats all of this, its values are
// finite and their SHA-256 is the one that it carries; any other file is skipped with a warning and replaced.
// Files are written under a unique name, then renamed, so several processes may share a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

// Returns a SHA-256 over the text encoder's options, the size and modification time of each of its files, the
// names, dtypes and shapes of all tensors, and the first, the middle and the last 4 KiB of each tensor (all
// of it up to 12 KiB). Of a tensor that is made when it is read, the encoding and the first, middle and last
// row are hashed. This takes some milliseconds for 11 GB. It does not notice other bytes of a tensor that
// were changed if the file's time was restored, too.
std::string encoder_fingerprint(const ModelBundle& model);

// Names this version and the program's size and time: another build may add numbers in another order.
std::string program_identity();

class TextCache {
 public:
  // Makes the folder if only its last part is missing. Throws io, naming `text_cache`, if that fails.
  explicit TextCache(std::filesystem::path folder);

  // `how` describes everything besides the model and the ids that the result depends on.
  struct Key {
    std::string encoder, how;
    std::vector<int64_t> ids;
    int64_t width = 0;  // d
  };
  // Returns [n, d] float32, or nothing.
  std::optional<std::vector<float>> find(const Key& key) const;
  // A failure (a full disk, a folder that may only be read) is a warning: the run itself needs no cache.
  void keep(const Key& key, std::span<const float> text) const;

  std::filesystem::path file_of(const Key& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tachy
