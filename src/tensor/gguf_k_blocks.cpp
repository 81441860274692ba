// Blocks of 256 values with two levels of scales: one or two float16 for the block, and 4 to 8 bits for each
// group of 16 or 32 values.
//
//   q2_k, q4_k, q5_k   value = (d * scale[g]) * q - (dmin * least[g])
//   q3_k, q6_k         value = (d * scale[g]) * q
//
// The low bits of value v: q2_k and q3_k keep 4 values per byte, with 32 bytes for each half of the block;
// q4_k and q5_k keep 2 values per byte, with 32 bytes for each quarter; q6_k has 64 bytes for each half. The
// next bit of value v, if there is one, is bit v / 32 of byte v % 32 of a mask; q6_k has two such bits.
#include "tensor/gguf_types.h"

namespace tachy::gguf {
namespace {

constexpr int kLane = 32;  // values whose bits are at the same position

// Unpacks the eight scales and the eight least values of q4_k and q5_k, 6 bits each, from 12 bytes.
void six_bit_pairs(const uint8_t* packed, int* scale, int* least) {
  for (int i = 0; i < 4; ++i) {
    scale[i] = packed[i] & 63;
    least[i] = packed[4 + i] & 63;
    scale[4 + i] = (packed[8 + i] & 15) | (packed[i] >> 2 & 48);
    least[4 + i] = packed[8 + i] >> 4 | (packed[4 + i] >> 2 & 48);
  }
}

}  // namespace

void Q2K::decode(const uint8_t* from, float* to) {
  const uint8_t *scales = from, *q = from + 16;
  const float d = half_at(from + 80), dmin = half_at(from + 82);
  for (int lane = 0; lane < 8; ++lane) {
    const uint8_t* at = q + lane / 4 * kLane;
    const int shift = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const int packed = scales[2 * lane + half];
      const float scale = d * wide(packed & 15), least = dmin * wide(packed >> 4);
      for (int i = 0; i < 16; ++i)
        to[kLane * lane + 16 * half + i] = scale * wide(at[16 * half + i] >> shift & 3) - least;
    }
  }
}

void Q3K::decode(const uint8_t* from, float* to) {
  const uint8_t *mask = from, *q = from + 32, *scales = from + 96;
  const float d = half_at(from + 108);
  for (int lane = 0; lane < 8; ++lane) {
    const uint8_t* at = q + lane / 4 * kLane;
    const int shift = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const int group = 2 * lane + half;
      const int low = scales[group % 8] >> group / 8 * 4 & 15;
      const int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
      const float scale = d * wide((low | high << 4) - 32);
      for (int i = 0; i < 16; ++i) {
        const int j = 16 * half + i;
        // If the bit is not set, 4 is subtracted.
        to[kLane * lane + j] = scale * wide((at[j] >> shift & 3) + (mask[j] >> lane & 1) * 4 - 4);
      }
    }
  }
}

void Q4K::decode(const uint8_t* from, float* to) {
  const float d = half_at(from), dmin = half_at(from + 2);
  int scales[8], leasts[8];
  six_bit_pairs(from + 4, scales, leasts);
  for (int lane = 0; lane < 8; ++lane) {
    const uint8_t* at = from + 16 + lane / 2 * kLane;
    const int shift = lane % 2 * 4;
    const float scale = d * wide(scales[lane]), least = dmin * wide(leasts[lane]);
    for (int i = 0; i < kLane; ++i) to[kLane * lane + i] = scale * wide(at[i] >> shift & 15) - least;
  }
}

void Q5K::decode(const uint8_t* from, float* to) {
  const float d = half_at(from), dmin = half_at(from + 2);
  int scales[8], leasts[8];
  six_bit_pairs(from + 4, scales, leasts);
  const uint8_t* mask = from + 16;
  for (int lane = 0; lane < 8; ++lane) {
    const uint8_t* at = from + 48 + lane / 2 * kLane;
    const int shift = lane % 2 * 4;
    const float scale = d * wide(scales[lane]), least = dmin * wide(leasts[lane]);
    for (int i = 0; i < kLane; ++i) {
      const int q = (at[i] >> shift & 15) | (mask[i] >> lane & 1) << 4;
      to[kLane * lane + i] = scale * wide(q) - least;
    }
  }
}

void Q6K::decode(const uint8_t* from, float* to) {
  const uint8_t *low = from, *high = from + 128, *scales = from + 192;
  const float d = half_at(from + 208);
  for (int lane = 0; lane < 8; ++lane) {
    const uint8_t* at = low + lane / 4 * 64 + lane % 2 * kLane;
    const uint8_t* bits = high + lane / 4 * kLane;
    const int low_shift = lane % 4 / 2 * 4, high_shift = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const float scale = d * wide(static_cast<int8_t>(scales[2 * lane + half]));
      for (int i = 0; i < 16; ++i) {
        const int j = 16 * half + i;
        to[kLane * lane + j] =
            scale * wide(((at[j] >> low_shift & 15) | (bits[j] >> high_shift & 3) << 4) - 32);
      }
    }
  }
}

}  // namespace tachy::gguf
