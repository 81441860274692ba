// Turns quantised weights into numbers. The code that makes one has checked shapes and dtypes
// (quantized_source.cpp).
#pragma once

#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Floats in a file, which may be unaligned.
struct FileValues {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;  // f32, f16 or bf16
  float operator[](int64_t i) const;
};

struct QuantizedWeight {
  const std::byte* data = nullptr;
  DType dtype = DType::f8_e4m3;  // for 8-bit values: f8_e4m3, f8_e5m2 or i8
  int64_t rows = 0, width = 0;   // shape of the resulting values
  FileValues scale;
  int64_t scale_rows = 1, scale_blocks = 1;  // 1 or `rows`; a divisor of `width`
  const std::byte* block_scale = nullptr;    // nvfp4: e4m3 for 16 values; mxfp8: e8m0 for 32; both in tiles
  FileValues column_scale;                   // [width]; data is null if there is none
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::string name = {};  // file and tensor, for messages
};

enum class Quantization { scaled, mxfp8, nvfp4 };

std::shared_ptr<const DerivedTensor> make_quantized(Quantization kind, QuantizedWeight weight);

// Scales of blocks are in the order of NVIDIA's tensor cores, in tiles of 128 rows and 4 columns: within a
// tile, row r and column c are at (r mod 32)·16 + (r / 32)·4 + c. These functions return the size of a matrix
// of scales in bytes, and the place of a scale.
int64_t tiled_bytes(int64_t rows, int64_t columns);
int64_t tiled_place(int64_t row, int64_t column, int64_t columns);

}  // namespace tachy
