// The steps of MT19937 (Matsumoto and Nishimura 1998), usable in kernels, too.
#pragma once

#include <cstdint>

namespace tachy::mersenne {

inline constexpr int kWords = 624;           // words of a state
inline constexpr int kFar = 397;             // a word's new value needs the word this far ahead
inline constexpr int kNear = kWords - kFar;  // … or, if that one is already renewed, the word this far back

// Returns the new value of a word, computed from the word, the next one and a far one.
constexpr uint32_t twisted(uint32_t word, uint32_t next, uint32_t far) {
  const uint32_t y = (word & 0x80000000u) | (next & 0x7fffffffu);
  return far ^ (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
}

constexpr uint32_t tempered(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// Returns a float in [0, 1), made from 24 of the bits as torch does.
constexpr float to_unit(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits & 0xffffffu)) * 0x1p-24f;
}

}  // namespace tachy::mersenne
