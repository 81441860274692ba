// Reads safetensors: the header's length as a little-endian u64, a JSON header {name: {dtype, shape,
// data_offsets}}, and then data.
//
// The reader trusts nothing. The header has at most 100 MB, every dtype must be known, and sizes are computed
// with overflow checks. Every range must be inside the file, have its tensor's size and share no byte with
// another tensor.
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

// Opens `*.safetensors.index.json` or `*.bin.index.json`, which contains {"weight_map": {tensor: name of a
// file in the same folder}}.
std::shared_ptr<TensorSource> open_sharded(const std::filesystem::path& index_path,
                                           FileAccess access = FileAccess::map);

struct NamedTensor {
  std::string name;
  Tensor tensor;  // contiguous, on the CPU
};

// Writes through an OutputFile (output_file.h), so a crash leaves no partial file under the final name.
// safetensors_layout (file_layout.h) places the tensors; files whose data is made piece by piece use it, too.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tachy
