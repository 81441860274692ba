// The table of types, and the blocks that have one scale for all of their values:
//
//   q4_0, q5_0, q8_0   d, integers       value = d * (q - 8), d * (q - 16), d * q
//   q4_1, q5_1         d, m, integers    value = d * q + m
//   iq4_nl, mxfp4      d, indices        value = d * table[q]
//
// With four bits per value, byte i holds value i in its low half and value i + 16 in its high half. The fifth
// bit of value i is bit i of a separate word.
#include "tensor/gguf_types.h"

#include <bit>
#include <cstring>

namespace tachy {
namespace gguf {
namespace {

constexpr int kHalf = 16;  // half of a block's 32 values

struct Q40 {
  static constexpr int kValues = 32, kBytes = 18;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from);
    const uint8_t* q = from + 2;
    for (int i = 0; i < kHalf; ++i) to[i] = d * wide((q[i] & 15) - 8);
    for (int i = 0; i < kHalf; ++i) to[i + kHalf] = d * wide((q[i] >> 4) - 8);
  }
};

struct Q41 {
  static constexpr int kValues = 32, kBytes = 20;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from), m = half_at(from + 2);
    const uint8_t* q = from + 4;
    for (int i = 0; i < kHalf; ++i) to[i] = d * wide(q[i] & 15) + m;
    for (int i = 0; i < kHalf; ++i) to[i + kHalf] = d * wide(q[i] >> 4) + m;
  }
};

uint32_t word_at(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}

// Returns bit i of `bits` as the fifth bit of a value.
int fifth(uint32_t bits, int i) { return static_cast<int>(bits >> i & 1u) << 4; }

struct Q50 {
  static constexpr int kValues = 32, kBytes = 22;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from);
    const uint32_t high = word_at(from + 2);
    const uint8_t* q = from + 6;
    for (int i = 0; i < kHalf; ++i) to[i] = d * wide(((q[i] & 15) | fifth(high, i)) - 16);
    for (int i = 0; i < kHalf; ++i) to[i + kHalf] = d * wide((q[i] >> 4 | fifth(high, i + kHalf)) - 16);
  }
};

struct Q51 {
  static constexpr int kValues = 32, kBytes = 24;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from), m = half_at(from + 2);
    const uint32_t high = word_at(from + 4);
    const uint8_t* q = from + 8;
    for (int i = 0; i < kHalf; ++i) to[i] = d * wide((q[i] & 15) | fifth(high, i)) + m;
    for (int i = 0; i < kHalf; ++i) to[i + kHalf] = d * wide(q[i] >> 4 | fifth(high, i + kHalf)) + m;
  }
};

struct Q80 {
  static constexpr int kValues = 32, kBytes = 34;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from);
    for (int i = 0; i < kValues; ++i) to[i] = d * wide(static_cast<int8_t>(from[2 + i]));
  }
};

constexpr float kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr float kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void by_table(const float (&table)[16], float d, const uint8_t* q, float* to) {
  for (int i = 0; i < kHalf; ++i) to[i] = d * table[q[i] & 15];
  for (int i = 0; i < kHalf; ++i) to[i + kHalf] = d * table[q[i] >> 4];
}

struct Iq4Nl {
  static constexpr int kValues = 32, kBytes = 18;
  static void decode(const uint8_t* from, float* to) { by_table(kUneven, half_at(from), from + 2, to); }
};

// A block has 256 values, and for each 32 of them a scale of 6 bits, stored plus 32. The upper two bits of
// the scales are in a separate word.
struct Iq4Xs {
  static constexpr int kValues = 256, kBytes = 136;
  static void decode(const uint8_t* from, float* to) {
    const float d = half_at(from);
    const int high = u16_at(from + 2);
    for (int group = 0; group < 8; ++group) {
      const int low = from[4 + group / 2] >> 4 * (group % 2) & 15;
      const int scale = (low | (high >> 2 * group & 3) << 4) - 32;
      by_table(kUneven, d * wide(scale), from + 8 + 16 * group, to + 32 * group);
    }
  }
};

// The scale is a power of two. Half of it is used here, because the table holds doubled values.
struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17;
  static void decode(const uint8_t* from, float* to) {
    const uint32_t e = from[0];
    by_table(kE2M1Doubled, std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23), from + 1, to);
  }
};

constexpr GgufType kTypes[] = {
    {0, "f32", 1, 4, DType::f32},
    {1, "f16", 1, 2, DType::f16},
    {30, "bf16", 1, 2, DType::bf16},
    {28, "f64", 1, 8, DType::f64},
    {24, "i8", 1, 1, DType::i8},
    {25, "i16", 1, 2, DType::i16},
    {26, "i32", 1, 4, DType::i32},
    {27, "i64", 1, 8, DType::i64},
    blocks_of<Q40>(2, "q4_0"),
    blocks_of<Q41>(3, "q4_1"),
    blocks_of<Q50>(6, "q5_0"),
    blocks_of<Q51>(7, "q5_1"),
    blocks_of<Q80>(8, "q8_0"),
    blocks_of<Q2K>(10, "q2_k"),
    blocks_of<Q3K>(11, "q3_k"),
    blocks_of<Q4K>(12, "q4_k"),
    blocks_of<Q5K>(13, "q5_k"),
    blocks_of<Q6K>(14, "q6_k"),
    blocks_of<Iq4Nl>(20, "iq4_nl"),
    blocks_of<Iq4Xs>(23, "iq4_xs"),
    blocks_of<Mxfp4>(39, "mxfp4"),
    blocks_of<Iq2Xxs>(16, "iq2_xxs"),
    blocks_of<Iq2Xs>(17, "iq2_xs"),
    blocks_of<Iq2S>(22, "iq2_s"),
    blocks_of<Iq3Xxs>(18, "iq3_xxs"),
    blocks_of<Iq3S>(21, "iq3_s"),
    blocks_of<Iq1S>(19, "iq1_s"),
    blocks_of<Iq1M>(29, "iq1_m"),
    blocks_of<Tq10>(34, "tq1_0"),
    blocks_of<Tq20>(35, "tq2_0"),
    // Of these, files contain only the last, whose tensors have a separate scale beside them. The others occur
    // only as intermediate sums.
    {9, "q8_1", 32, 40},
    {15, "q8_k", 256, 292},
    {40, "nvfp4", 64, 36},
};

}  // namespace
}  // namespace gguf

const GgufType* find_gguf_type(uint32_t id) {
  for (const GgufType& type : gguf::kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

const GgufType* find_gguf_type(std::string_view name) {
  for (const GgufType& type : gguf::kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

}  // namespace tachy
