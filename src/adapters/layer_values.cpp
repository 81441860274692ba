// Files are searched for values that are not numbers: after merging or adding, a single one would spoil every
// value of the video, and the error would blame the transformer.
#include "adapters/layer_values.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "cpu/widen.h"
#include "weights/entry_values.h"
#include "weights/quote.h"

namespace tachy {
namespace {

constexpr int64_t kNone = -1;

// Returns the place of the first value whose exponent bits are all set (NaN or infinity).
template <class Bits, Bits Exponent>
int64_t first_odd(const void* data, int64_t count) {
  constexpr int64_t kBlock = 4096;  // most blocks have no such value, so a block is searched without branches
  const auto at = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    return bits;
  };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) found |= (at(i) & Exponent) == Exponent;
    for (int64_t i = begin; found && i < end; ++i)
      if ((at(i) & Exponent) == Exponent) return i;
  }
  return kNone;
}

int64_t first_odd_of(const void* data, DType dtype, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return first_odd<uint32_t, 0x7f800000>(data, count);
    case DType::bf16:
      return first_odd<uint16_t, 0x7f80>(data, count);
    case DType::f16:
      return first_odd<uint16_t, 0x7c00>(data, count);
    case DType::f8_e5m2:
      return first_odd<uint8_t, 0x7c>(data, count);
    case DType::f8_e4m3:  // it has no infinities, and 480 is NaN
      return first_odd<uint8_t, 0x7f>(data, count);
    default:
      return kNone;
  }
}

}  // namespace

Tensor layer_values(const TensorSource& source, const TensorSource::Entry& entry,
                    std::deque<std::vector<float>>& made) {
  const auto where = [&] { return source.file_of(entry) + ": tensor " + in_quotes(entry.name_in_file); };
  check(has_values(entry), ErrorCode::unsupported,
        "{}: it is {}, and an adapter's values are floating-point numbers", where(), dtype_name(entry.dtype));
  Tensor out(const_cast<void*>(entry.data), entry.dtype, entry.dims);
  if (entry.derived || !cpu::widens(entry.dtype)) {
    std::vector<float>& values = made.emplace_back(static_cast<size_t>(value_count(entry)));
    entry_values(entry, 0, values);
    out = Tensor(values.data(), DType::f32, entry.dims);
  }
  const int64_t odd = first_odd_of(out.data, out.dtype, out.numel());
  if (odd == kNone) return out;
  float value = 0;
  cpu::widen(static_cast<const char*>(out.data) + odd * dtype_size(out.dtype), out.dtype, 1, &value);
  fail(ErrorCode::corrupt, "{}: value {} is {}; the adapter's file is damaged, or its training failed",
       where(), odd, std::isnan(value) ? "NaN" : "infinite");
}

}  // namespace tachy
