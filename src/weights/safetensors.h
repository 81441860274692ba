// safetensors: u64 header length (little endian), a JSON
// header {name: {dtype, shape, data_offsets}}, then data.
//
// The reader trusts nothing: the header is at most 100 MB, every dtype known, every size computed with
// overflow checks, every range inside the file, equal to its tensor's size and shared with no other tensor.
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

// `*.safetensors.index.json` (also `*.bin.index.json`): {"weight_map": {tensor: plain file name beside it}}.
std::shared_ptr<TensorSource> open_sharded(const std::filesystem::path& index_path,
                                           FileAccess access = FileAccess::map);

struct NamedTensor {
  std::string name;
  Tensor tensor;  // contiguous, on the CPU
};

// Writes an OutputFile (output_file.h): a crash leaves no half file under the final name. Where the tensors lie
// is told by safetensors_layout (file_layout.h), which also serves files whose data is made piece by piece.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tachy
