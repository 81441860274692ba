#include "bind/ops.h"

namespace tachy::python {

std::span<const Op> op_table() {
  static const Op table[] = {kRmsNorm, kRmsNormBackward};
  return table;
}

}  // namespace tachy::python
