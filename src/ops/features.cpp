#include "ops/features.h"

#include "cpu/panels.h"

namespace tachy::ops {

std::optional<std::string> why_no_bf16() { return cpu::panels_why_not(Compute::bf16); }

}  // namespace tachy::ops
