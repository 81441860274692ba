// Arm's bf16 instructions (FEAT_BF16) for the products of panels.h.
#pragma once

#include "cpu/panels.h"

#if defined(__aarch64__) && defined(__linux__)
#define TACHY_NEON_BF16 1

namespace tachy::cpu {

bool has_neon_bf16();
void product_neon_bf16(const PanelProduct& p);  // for one panel

}  // namespace tachy::cpu
#endif
