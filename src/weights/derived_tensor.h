// A tensor whose values do not lie in a file as they are: blocks of GGUF, 8-bit values with scales, a weight
// with an adapter merged into it. It can be made row by row, whenever it is needed and as often as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/gguf_types.h"
#include "tensor/tensor.h"

namespace tachy {

// How the values of a derived tensor lie in its file, for whoever keeps them so.
struct StoredValues {
  Tensor bytes;                    // [rows, bytes a row] u8 of blocks; or [rows, width] f8_e4m3, f8_e5m2, i8
  const GgufType* type = nullptr;  // of blocks; null: 8-bit values, each to be multiplied with its scale
  std::vector<float> scales = {};  // [1 or rows, pieces of a row]
  int64_t scale_rows = 0, scale_pieces = 0;
};

class DerivedTensor {
 public:
  virtual ~DerivedTensor() = default;
  // What people call it: "q4_k", "f8_e4m3 with scales", "merged".
  virtual std::string_view encoding() const = 0;
  // The dtypes in which decode() writes rows. Codes of 8 bits go to their place as they are: on the way through float32 each
  // would be widened and narrowed for nothing.
  virtual bool makes(DType dtype) const { return dtype == DType::f32; }
  // Rows [first, first + rows.dim(0)) of the tensor seen as [dims[0], everything else] into `rows`, contiguous and of a
  // dtype that it makes. May be called from several threads at once. Files were checked when the source was
  // opened: it reads nothing outside of them, whatever they hold.
  virtual void decode(int64_t first, const Tensor& rows) const = 0;
  // Of the tensor as [rows, width]; nothing where it is made of more than a file's bytes and their scales, or where
  // blocks do not end with rows. The bytes live as long as the source that it came from.
  virtual std::optional<StoredValues> stored(int64_t rows, int64_t width) const {
    (void)rows, (void)width;
    return std::nullopt;
  }
};

// Values [begin, begin + to.numel()) of `from`, whose rows have `width` values each, into `to`: contiguous on
// the host, float32, bfloat16, float16, f8_e4m3 or int8 (saturated), rounded once to nearest.
void decode_values(const DerivedTensor& from, int64_t width, int64_t begin, const Tensor& to);

}  // namespace tachy
