// The common form of all weights formats: a sorted list of named, contiguous tensors in mapped files.
//
// A source owns its mappings, so keep the shared_ptr (or Scope::keep()) as long as any of its tensors is in
// use. Models ask for `name` (after renaming, see rename.h); `name_in_file` is for messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "weights/derived_tensor.h"
#include "weights/mapped_file.h"

namespace tachy {

class TensorSource {
 public:
  struct Entry {
    std::string name;
    std::string name_in_file;
    DType dtype = DType::f32;
    std::vector<int64_t> dims;   // rank 1 to 6; a scalar is [1]
    const void* data = nullptr;  // may be unaligned for its dtype: Scope copies such tensors
    uint64_t bytes = 0;
    uint32_t file = 0;     // index into files()
    std::string unusable;  // why this tensor cannot be read (non-contiguous …); empty if it can
    // Set if the values have to be made first. `data` is then null, and `bytes` is the size in the file. Code
    // that keeps all values keeps them as `dtype`: float32, or the file's own 16 bits.
    std::shared_ptr<const DerivedTensor> derived = {};
  };

  // Sorts by name. Throws corrupt if two entries share a name.
  TensorSource(std::vector<Entry> entries, std::vector<std::shared_ptr<const MappedFile>> files,
               std::map<std::string, std::string> metadata = {});

  // Returns the same files with other entries.
  std::shared_ptr<TensorSource> with_entries(std::vector<Entry> entries) const {
    return std::make_shared<TensorSource>(std::move(entries), files_, metadata_);
  }

  const Entry* find(std::string_view name) const;  // nullptr when there is none
  // Returns the dims of a tensor that `part` of a model must have; messages name the part. Throws not_found
  // if there is no such tensor, and corrupt if its rank is different.
  const std::vector<int64_t>& dims_of(std::string_view part, std::string_view name, size_t rank) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::span<const Entry> entries() const { return entries_; }

  std::string file_of(const Entry& entry) const;
  std::string files_text() const;  // for messages: the only file, or "a.safetensors and 3 more"
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  uint64_t mapped_bytes() const;  // sizes of all mapped files
  uint64_t read_bytes() const;    // sizes of all files that were read into Buffers instead

  // Throws io, naming the file, if a mapped file has changed its length: its pages must not be touched.
  void check_files() const;

 private:
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, std::string> metadata_;
};

// Returns the tensors of both, with the metadata of the first. Throws corrupt if both have a tensor with the
// same name.
std::shared_ptr<TensorSource> joined(const TensorSource& first, const TensorSource& second);

// Opens weights by content: a .safetensors file, a torch zip (.pth .pt .bin), a .gguf file, a *.index.json of
// shards, or a folder with one of these. In a folder, the file has a usual name (diffusion_pytorch_model,
// model, pytorch_model) or is the only one.
std::shared_ptr<TensorSource> open_weights(const std::filesystem::path& path,
                                           FileAccess access = FileAccess::map);

// Returns the file that open_weights(folder) would open, or an empty path if there is none.
std::filesystem::path find_weights(const std::filesystem::path& folder);

}  // namespace tachy
