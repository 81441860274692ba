// The facts about a head and the constants that all kernels of attention in 8 bits share.
#pragma once

#include <cstdint>

namespace tachy::ops::flash {

// A head, as the quantising kernels found it.
struct Head8 {
  uint32_t broken;      // a value is not finite, or a value of v exceeds the room that its scale leaves
  uint32_t k_coarsest;  // bits of k's largest scale
};

// The largest allowed step of an exponent per unit of the integers' product: q·k of 128 channels is then off
// by about 150 units, so weights by about a tenth.
inline constexpr float kCoarsest = 1e-3f;
// An integer added to the bits of 1.5·2^23 makes the float larger by that number.
inline constexpr float kMagic = 12582912.0f;
inline constexpr uint32_t kMagicBits = 0x4b400000;

}  // namespace tachy::ops::flash
