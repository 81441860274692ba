// safetensors: u64 header length (little endian), a JSON header {name: {dtype, shape, data_offsets}}, then
// data.
//
// The reader trusts nothing: the header has at most 100 MB, every dtype must be known, and every size is
// computed with overflow checks. Every range must lie inside the file, have its tensor's size and share
// nothing with another tensor.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"
#include "weights/tensor_source.h"

namespace tachy {

std::shared_ptr<TensorSource> open_safetensors(const std::filesystem::path& path,
                                               FileAccess access = FileAccess::map);

// Opens `*.safetensors.index.json` (or `*.bin.index.json`): {"weight_map": {tensor: plain file name beside
// it}}.
std::shared_ptr<TensorSource> open_sharded(const std::filesystem::path& index_path,
                                           FileAccess access = FileAccess::map);

struct NamedTensor {
  std::string name;
  Tensor tensor;  // contiguous, on the CPU
};

// Writes through an OutputFile (output_file.h): a crash leaves no half file under the final name.
// safetensors_layout (file_layout.h) says where the tensors lie; it also serves files whose data is made
// piece by piece.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tachy
