// A tensor whose values do not lie in a file as they are: blocks of GGUF, 8-bit values with scales, a weight
// with an adapter merged into it. It can be made row by row, whenever it is needed and as often as it is.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace tachy {

class DerivedTensor {
 public:
  virtual ~DerivedTensor() = default;
  // What people call it: "q4_k", "f8_e4m3 with scales", "merged".
  virtual std::string_view encoding() const = 0;
  // Rows [first, first + rows.dim(0)) of the tensor seen as [dims[0], everything else] into `rows`, float32
  // and contiguous. May be called from several threads at once. Files were checked when the source was
  // opened: it reads nothing outside of them, whatever they hold.
  virtual void decode(int64_t first, const Tensor& rows) const = 0;
};

// Values [begin, begin + to.numel()) of `from`, whose rows have `width` values each, into `to`: contiguous on
// the host, float32, bfloat16, float16, f8_e4m3 or int8 (saturated), rounded once to nearest.
void decode_values(const DerivedTensor& from, int64_t width, int64_t begin, const Tensor& to);

}  // namespace tachy
