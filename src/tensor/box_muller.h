// Uniform numbers to normal ones, as torch's CPU generator makes them from 16 values on (random.h).
#pragma once

#include <cstddef>

namespace tachy {

inline constexpr size_t kBoxMullerBlock = 16;

// Blocks of 16 uniforms in [0, 1) to 16 normals in place: value j pairs with value j + 8.
void box_muller(float* data, size_t blocks);

}  // namespace tachy
