// Cases of coarse_attention.
#pragma once

#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

// The CPU has the definition alone, so the op runner compares nothing here; tests/golden/ops has PyTorch's results.
inline std::vector<OpCase> coarse_attention_cases() { return {}; }

}  // namespace tachy::ops
