// The reason why a layer of an adapter does not fit its target. It is thrown while the layer is read, and the
// layer is then left out.
#pragma once

#include <fmt/format.h>

#include <string>

#include "weights/entry_values.h"

namespace tachy {

struct Misfit {
  std::string reason;
};
template <class... Args>
[[noreturn]] void misfit(fmt::format_string<Args...> format, Args&&... args) {
  throw Misfit{fmt::format(format, std::forward<Args>(args)...)};
}

// The size of a weight as a matrix.
struct Extents {
  int64_t out, in;
  explicit Extents(const TensorSource::Entry& weight)
      : out(weight.dims.front()), in(value_count(weight) / std::max<int64_t>(out, 1)) {}
};

}  // namespace tachy
