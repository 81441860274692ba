#include "weights/gguf/gguf_encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weights/entry_values.h"

namespace tachy {
namespace {

constexpr int kValues = 32, kHalf = 16;  // values in a block, and half of them

void put_half(float value, uint8_t* to) {
  const f16_t half = to_f16(value);
  std::memcpy(to, &half, sizeof half);
}

// Returns the factor that turns x into units of d, or 0 for a block of equal values.
float per_unit(float d) { return d == 0 ? 0 : 1 / d; }

// Returns the whole part of `value`, limited to [0, most] because a scale that is too small for float32 must
// not push it outside.
uint8_t whole(float value, int most) {
  return value > 0 ? static_cast<uint8_t>(std::min(value, static_cast<float>(most))) : 0;
}

// Packs four bits of each value: those of value i into the low half of byte i, those of value i + 16 into its
// high half. Fifth bits, if there are any, are in one word before the bytes.
void put_codes(const uint8_t (&codes)[kValues], bool fifth, uint8_t* to) {
  if (fifth) {
    uint32_t word = 0;
    for (int i = 0; i < kValues; ++i) word |= static_cast<uint32_t>(codes[i] >> 4) << i;
    std::memcpy(to, &word, sizeof word);
    to += sizeof word;
  }
  for (int i = 0; i < kHalf; ++i)
    to[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + kHalf] & 15) << 4);
}

struct Q80 {
  static constexpr int kBytes = 34;
  static void encode(const float* x, uint8_t* to) {
    float most = 0;
    for (int i = 0; i < kValues; ++i) most = std::max(most, std::abs(x[i]));
    const float d = most / 127, units = per_unit(d);
    put_half(d, to);
    for (int i = 0; i < kValues; ++i) {
      const float size = std::abs(x[i] * units), below = std::floor(size);
      const float rounded = std::min(127.0f, below + std::floor(2 * (size - below)));  // 127 for NaN, too
      to[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(x[i] < 0 ? -rounded : rounded));
    }
  }
};

// For codes around a middle: 8 of 16, or 16 of 32.
template <int kMiddle>
struct Centred {
  static constexpr bool kFifth = kMiddle == 16;
  static constexpr int kBytes = 2 + (kFifth ? 4 : 0) + kHalf;
  static void encode(const float* x, uint8_t* to) {
    int farthest = 0;
    for (int i = 1; i < kValues; ++i)
      if (std::abs(x[i]) > std::abs(x[farthest])) farthest = i;
    const float d = x[farthest] / -kMiddle, units = per_unit(d);
    uint8_t codes[kValues];
    for (int i = 0; i < kValues; ++i) codes[i] = whole(x[i] * units + (kMiddle + 0.5f), 2 * kMiddle - 1);
    put_half(d, to);
    put_codes(codes, kFifth, to + 2);
  }
};

// For codes from the smallest value to the largest.
template <int kMost>
struct Ranged {
  static constexpr bool kFifth = kMost == 31;
  static constexpr int kBytes = 4 + (kFifth ? 4 : 0) + kHalf;
  static void encode(const float* x, uint8_t* to) {
    const float least = *std::min_element(x, x + kValues), most = *std::max_element(x, x + kValues);
    const float d = (most - least) / kMost, units = per_unit(d);
    uint8_t codes[kValues];
    for (int i = 0; i < kValues; ++i) codes[i] = whole((x[i] - least) * units + 0.5f, kMost);
    put_half(d, to), put_half(least, to + 2);
    put_codes(codes, kFifth, to + 4);
  }
};

template <class Block>
void encode_blocks(const float* from, int64_t count, std::byte* to) {
  auto* at = reinterpret_cast<uint8_t*>(to);
  for (int64_t i = 0; i < count; ++i) Block::encode(from + i * kValues, at + i * Block::kBytes);
}

template <DType Type>
void encode_plain(const float* from, int64_t count, std::byte* to) {
  store_values(from, count, Type, to);
}

struct Encoder {
  std::string_view type;
  EncodeBlocks encode;
};
constexpr Encoder kEncoders[] = {
    {"f32", encode_plain<DType::f32>},   {"bf16", encode_plain<DType::bf16>},
    {"f16", encode_plain<DType::f16>},   {"q8_0", encode_blocks<Q80>},
    {"q5_1", encode_blocks<Ranged<31>>}, {"q5_0", encode_blocks<Centred<16>>},
    {"q4_1", encode_blocks<Ranged<15>>}, {"q4_0", encode_blocks<Centred<8>>},
};

}  // namespace

EncodeBlocks gguf_encoder(const GgufType& type) {
  for (const Encoder& encoder : kEncoders)
    if (encoder.type == type.name) return encoder.encode;
  return nullptr;
}

std::vector<std::string_view> encodable_gguf_types() {
  std::vector<std::string_view> out;
  for (const Encoder& encoder : kEncoders) out.push_back(encoder.type);
  return out;
}

}  // namespace tachy
