// Turns uniform numbers into normal ones, as torch's CPU generator does for 16 or more values (random.h).
#pragma once

#include <cstddef>

namespace tachy {

inline constexpr size_t kBoxMullerBlock = 16;

// Turns blocks of 16 uniforms in [0, 1) into 16 normals, in place: value j pairs with value j + 8.
void box_muller(float* data, size_t blocks);

}  // namespace tachy
