// Files of tensors before their data is made: from the list of tensors follow the header, where each tensor lies and
// how long the file is. The data may then be made and written in any order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/gguf_types.h"

namespace tachy {

struct StoredTensor {
  std::string name;
  std::vector<int64_t> dims;       // of its values, the outermost first
  DType dtype = DType::f32;        // of a safetensors file
  const GgufType* type = nullptr;  // of a GGUF file
  uint64_t bytes() const;
};

struct FileLayout {
  std::string header;            // the file's first bytes
  std::vector<uint64_t> begins;  // of the tensors' data in the file, in the order in which they were given
  uint64_t bytes = 0;            // of the whole file
};

// Data is ordered by element size (largest first), then name, as the reference library does it: every tensor is then
// aligned for its dtype without holes, which the format forbids. The data begins at a multiple of 8.
FileLayout safetensors_layout(std::span<const StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

struct GgufKey {
  std::string name;
  std::variant<std::string, uint32_t, std::vector<int32_t>> value;
};

// Version 3, aligned to 32 bytes, tensors in the order given. A tensor of more than four dimensions, which readers
// of GGUF refuse, is stored with its outermost ones taken together and its shape in comfy.gguf.orig_shape.NAME.
FileLayout gguf_layout(std::span<const StoredTensor> tensors, std::vector<GgufKey> keys);

}  // namespace tachy
