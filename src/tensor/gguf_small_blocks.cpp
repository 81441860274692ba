// Blocks of 256 values of 1 to 3 bits. Most types store indices of rows of a grid, where a row is four or
// eight magnitudes that often occur together.
//
//   iq2_*, iq3_*   value = ± scale * magnitude            scale = d * (0.5 + s) / 4, iq3_xxs: / 2, iq3_s: d * (1 + 2s)
//   iq1_*          value = scale * (digit - 1 ± 1/8)      scale = d * (1 + 2s)
//   tq1_0, tq2_0   value = d * (digit - 1)
//
// The xxs and xs types store seven signs for eight values; the eighth makes the number of minus signs even.
#include <array>
#include <bit>
#include <cstring>

#include "tensor/gguf_grids.h"
#include "tensor/gguf_types.h"

namespace tachy::gguf {
namespace {

constexpr float kMagnitudes2[3] = {8, 25, 43};
constexpr float kMagnitudes3[8] = {4, 12, 20, 28, 36, 44, 52, 62};

uint32_t u32_at(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}

int eight_signs(uint32_t seven) {
  return static_cast<int>(seven | (static_cast<uint32_t>(std::popcount(seven)) & 1u) << 7);
}

float with_sign(float value, int signs, int i) { return signs >> i & 1 ? -value : value; }

// Writes eight values from a row of magnitudes.
void row2(int row, float scale, int signs, float* to) {
  for (int i = 0; i < 8; ++i) to[i] = with_sign(scale * kMagnitudes2[row >> 2 * i & 3], signs, i);
}

// Writes four values from a row of magnitudes; two rows share a byte of signs.
void row3(float (*magnitude)(int), int row, float scale, int signs, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = with_sign(scale * magnitude(row >> 3 * i & 7), signs, i);
}

void row1(int row, float scale, bool less, float* to) {
  const float delta = less ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i) to[i] = scale * (wide((row >> 2 * i & 3) - 1) + delta);
}

// Returns the i-th of numbers that have 4 bits each.
int nibble(const uint8_t* from, int i) { return from[i / 2] >> 4 * (i % 2) & 15; }

}  // namespace

void Iq2Xxs::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* rows = from + 2 + 8 * group;
    const uint32_t word = u32_at(rows + 4);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int i = 0; i < 4; ++i)
      row2(kGrid2[rows[i]], scale, eight_signs(word >> 7 * i & 127), to + 32 * group + 8 * i);
  }
}

void Iq2Xs::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  const uint8_t* scales = from + 66;
  for (int i = 0; i < 32; ++i) {
    const uint32_t q = u16_at(from + 2 + 2 * i);
    const float scale = d * (0.5f + wide(nibble(scales, i / 2))) * 0.25f;
    row2(kGrid2Xs[q & 511], scale, eight_signs(q >> 9), to + 8 * i);
  }
}

void Iq2S::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  const uint8_t *q = from + 2, *signs = from + 34, *high = from + 66, *scales = from + 74;
  for (int i = 0; i < 32; ++i) {
    const int row = q[i] | (high[i / 4] >> 2 * (i % 4) & 3) << 8;
    const float scale = d * (0.5f + wide(nibble(scales, i / 2))) * 0.25f;
    row2(kGrid2S[static_cast<size_t>(row)], scale, signs[i], to + 8 * i);
  }
}

void Iq3Xxs::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  for (int group = 0; group < 8; ++group) {
    const uint32_t word = u32_at(from + 66 + 4 * group);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int i = 0; i < 8; ++i) {
      const int signs = eight_signs(word >> i / 2 * 7 & 127) >> i % 2 * 4;
      row3([](int digit) { return kMagnitudes3[digit]; }, kGrid3[from[2 + 8 * group + i]], scale, signs,
           to + 32 * group + 4 * i);
    }
  }
}

void Iq3S::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  const uint8_t *q = from + 2, *high = from + 66, *signs = from + 74, *scales = from + 106;
  for (int i = 0; i < 64; ++i) {
    const int row = q[i] | (high[i / 8] >> i % 8 & 1) << 8;
    const float scale = d * wide(1 + 2 * nibble(scales, i / 8));
    row3([](int digit) { return wide(2 * digit + 1); }, kGrid3S[static_cast<size_t>(row)], scale,
         signs[i / 2] >> i % 2 * 4, to + 4 * i);
  }
}

void Iq1S::decode(const uint8_t* from, float* to) {
  const float d = half_at(from);
  for (int group = 0; group < 8; ++group) {
    const int high = u16_at(from + 34 + 2 * group);
    const float scale = d * wide(2 * (high >> 12 & 7) + 1);
    for (int i = 0; i < 4; ++i) {
      const int row = from[2 + 4 * group + i] | (high >> 3 * i & 7) << 8;
      row1(kGrid1[static_cast<size_t>(row)], scale, (high & 0x8000) != 0, to + 32 * group + 8 * i);
    }
  }
}

// The 16 bits of d lie in the upper four bits of four words. The other bits of each word are four scales of
// three bits.
void Iq1M::decode(const uint8_t* from, float* to) {
  const uint8_t *high = from + 32, *scales = from + 48;
  uint16_t bits = 0;
  for (int i = 0; i < 4; ++i) bits = static_cast<uint16_t>(bits | (u16_at(scales + 2 * i) >> 12) << 4 * i);
  const float d = to_float(f16_t{bits});
  for (int i = 0; i < 32; ++i) {
    const int pair = i / 2, four = nibble(high, i);
    const float scale = d * wide(2 * (u16_at(scales + pair / 4 * 2) >> pair % 4 * 3 & 7) + 1);
    const int row = from[i] | (four & 7) << 8;
    row1(kGrid1[static_cast<size_t>(row)], scale, (four & 8) != 0, to + 8 * i);
  }
}

// Five digits of base 3 share a byte, which holds them as a fraction of 256. Each multiplication by 3 yields
// the next digit.
void Tq10::decode(const uint8_t* from, float* to) {
  const float d = half_at(from + 52);
  const auto digits = [&](const uint8_t* bytes, int count, int each) {
    for (int n = 0, power = 1; n < each; ++n, power *= 3)
      for (int i = 0; i < count; ++i) *to++ = d * wide(((bytes[i] * power & 255) * 3 >> 8) - 1);
  };
  digits(from, 32, 5), digits(from + 32, 16, 5), digits(from + 48, 4, 4);
}

void Tq20::decode(const uint8_t* from, float* to) {
  const float d = half_at(from + 64);
  for (int lane = 0; lane < 8; ++lane)
    for (int i = 0; i < 32; ++i)
      to[32 * lane + i] = d * wide((from[lane / 4 * 32 + i] >> lane % 4 * 2 & 3) - 1);
}

}  // namespace tachy::gguf
