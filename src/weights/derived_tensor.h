// A tensor whose values are not stored in a file as they are: blocks of GGUF, 8-bit values with scales, or a
// weight into which an adapter was merged. Its rows can be made whenever and as often as they are needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/gguf_types.h"
#include "tensor/tensor.h"

namespace tachy {

// How a file stores the values of a derived tensor, for code that keeps them in that form.
struct StoredValues {
  Tensor bytes;  // for blocks, [rows, bytes in a row] u8; otherwise [rows, width] f8_e4m3, f8_e5m2 or i8
  // The type of the blocks; null for 8-bit values, each of which is multiplied by its scale.
  const GgufType* type = nullptr;
  std::vector<float> scales = {};  // [1 or rows, pieces in a row]
  int64_t scale_rows = 0, scale_pieces = 0;
};

class DerivedTensor {
 public:
  virtual ~DerivedTensor() = default;
  // Returns the name that people use for it, such as "q4_k", "f8_e4m3 with scales" or "merged".
  virtual std::string_view encoding() const = 0;
  // Says whether decode() can write rows of this dtype. Codes of 8 bits are copied as they are, because a
  // detour by float32 would widen and narrow each of them for nothing.
  virtual bool makes(DType dtype) const { return dtype == DType::f32; }
  // Writes rows [first, first + rows.dim(0)) of the tensor, seen as [dims[0], everything else], into `rows`.
  // This is contiguous and has a dtype for which makes() is true. Several threads may call this at once.
  // Files were checked when the source was opened, so nothing outside of them is read, whatever they contain.
  virtual void decode(int64_t first, const Tensor& rows) const = 0;
  // Returns how the tensor is stored, seen as [rows, width]. Returns nothing if it is made of more than a
  // file's bytes and their scales, or if blocks cross the ends of rows. The bytes live as long as the source
  // that the tensor came from.
  virtual std::optional<StoredValues> stored(int64_t rows, int64_t width) const {
    (void)rows, (void)width;
    return std::nullopt;
  }
};

// Writes values [begin, begin + to.numel()) of `from`, whose rows have `width` values each, into `to`. `to`
// is contiguous, on the host, and of float32, bfloat16, float16, f8_e4m3 or int8 (saturated); values are
// rounded once, to nearest.
void decode_values(const DerivedTensor& from, int64_t width, int64_t begin, const Tensor& to);

}  // namespace tachy
