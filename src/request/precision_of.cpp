#include "request/precision_of.h"

#include "base/error.h"

namespace tachy {

Precision precision_of(const Mode& mode) { return {.compute = mode.compute, .definitions = mode.reference}; }

Precision precision_of(const GpuMode& mode) {
  return {.activation = mode.activation,
          .residual = mode.residual,
          .attention_int8 = mode.attention_int8,
          .products = mode.products};
}

Precision precision_at(const std::string& level, const std::string& dtype, std::optional<int> capability) {
  if (capability) return precision_of(gpu_mode(level, dtype, *capability));
  Mode mode = find_level(level).mode;
  if (!dtype.empty()) mode.compute = parse_compute(dtype);
  return precision_of(mode);
}

void check_definitions(const Precision& p) {
  require(!p.definitions || p.compute == Compute::f32,
          "`dtype`: level none runs the definitions, which compute in f32");
}

}  // namespace tachy
