// The layout of a file of tensors, before their data is made: the list of tensors determines the header, the
// place of each tensor and the length of the file. The data may then be made and written in any order.
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
  std::vector<int64_t> dims;       // shape of the values, outermost dimension first
  DType dtype = DType::f32;        // for a safetensors file
  const GgufType* type = nullptr;  // for a GGUF file
  uint64_t bytes() const;
};

struct FileLayout {
  std::string header;  // the file's first bytes
  // where each tensor's data begins in the file, in the order in which the tensors were given
  std::vector<uint64_t> begins;
  uint64_t bytes = 0;  // length of the whole file
};

// Data is ordered by element size (largest first), then by name, as the reference library does it: every
// tensor is then aligned for its dtype without holes, which the format forbids. The data begins at a multiple
// of 8.
FileLayout safetensors_layout(std::span<const StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

struct GgufKey {
  std::string name;
  std::variant<std::string, uint32_t, std::vector<int32_t>> value;
};

// Writes version 3, aligned to 32 bytes, with the tensors in the given order. Readers of GGUF refuse tensors
// of more than four dimensions: such a tensor is stored with its outermost dimensions merged and its shape in
// comfy.gguf.orig_shape.NAME.
FileLayout gguf_layout(std::span<const StoredTensor> tensors, std::vector<GgufKey> keys);

}  // namespace tachy
