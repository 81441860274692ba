// The layout of a file of tensors before their data exists. The list of tensors determines the header, the
// place of each tensor and the length of the file, so the data can be made and written in any order.
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
  // where each tensor's data begins in the file; the tensors have the order of the given list
  std::vector<uint64_t> begins;
  uint64_t bytes = 0;  // length of the whole file
};

// Data is ordered by element size (largest first) and then by name, as in the reference library. So every
// tensor is aligned for its dtype without gaps, which the format forbids. The data begins at a multiple of 8.
FileLayout safetensors_layout(std::span<const StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

struct GgufKey {
  std::string name;
  std::variant<std::string, uint32_t, std::vector<int32_t>> value;
};

// Writes version 3, aligned to 32 bytes, with the tensors in the given order. Readers of GGUF refuse tensors
// of more than four dimensions, so the outermost dimensions of such a tensor are merged, and its shape is
// stored in comfy.gguf.orig_shape.NAME.
FileLayout gguf_layout(std::span<const StoredTensor> tensors, std::vector<GgufKey> keys);

}  // namespace tachy
