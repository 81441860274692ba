// The types of GGUF's tensors. A plain type is one of our dtypes. A quantised type stores blocks of 32 or 256
// neighbouring values of a row, as integers of 2 to 8 bits and the scales that multiply them.
//
// decode gives bit for bit the float32 values of the reference (the `gguf` Python package): each product and
// difference is rounded once, in the reference's order, and nothing is fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace tachy {

using DecodeBlocks = void (*)(const std::byte* blocks, int64_t count, float* to);

struct GgufType {
  uint32_t id;  // its number in the file
  std::string_view name;
  int block_values, block_bytes;
  std::optional<DType> plain = {};
  DecodeBlocks decode = nullptr;  // for quantised types; null if only the size of the type is known
};

const GgufType* find_gguf_type(uint32_t id);            // nullptr if there is none
const GgufType* find_gguf_type(std::string_view name);  // takes names such as "q8_0"

// Each type of block has one struct, defined in the file of its family.
namespace gguf {

// Decodes all blocks of a row of blocks, one after another.
template <class Block>
void decode_blocks(const std::byte* blocks, int64_t count, float* to) {
  const auto* at = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < count; ++i) Block::decode(at + i * Block::kBytes, to + i * Block::kValues);
}

template <class Block>
constexpr GgufType blocks_of(uint32_t id, std::string_view name) {
  return {.id = id,
          .name = name,
          .block_values = Block::kValues,
          .block_bytes = Block::kBytes,
          .plain = {},
          .decode = decode_blocks<Block>};
}

inline uint16_t u16_at(const uint8_t* from) { return static_cast<uint16_t>(from[0] | from[1] << 8); }
inline float half_at(const uint8_t* from) { return to_float(f16_t{u16_at(from)}); }
inline float wide(int value) { return static_cast<float>(value); }

// Blocks of 256 values, with a scale for each 16 or 32 of them.
struct Q2K {
  static constexpr int kValues = 256, kBytes = 84;
  static void decode(const uint8_t* from, float* to);
};
struct Q3K {
  static constexpr int kValues = 256, kBytes = 110;
  static void decode(const uint8_t* from, float* to);
};
struct Q4K {
  static constexpr int kValues = 256, kBytes = 144;
  static void decode(const uint8_t* from, float* to);
};
struct Q5K {
  static constexpr int kValues = 256, kBytes = 176;
  static void decode(const uint8_t* from, float* to);
};
struct Q6K {
  static constexpr int kValues = 256, kBytes = 210;
  static void decode(const uint8_t* from, float* to);
};

// Blocks like these with 1 to 3 bits per value.
struct Iq2Xxs {
  static constexpr int kValues = 256, kBytes = 66;
  static void decode(const uint8_t* from, float* to);
};
struct Iq2Xs {
  static constexpr int kValues = 256, kBytes = 74;
  static void decode(const uint8_t* from, float* to);
};
struct Iq2S {
  static constexpr int kValues = 256, kBytes = 82;
  static void decode(const uint8_t* from, float* to);
};
struct Iq3Xxs {
  static constexpr int kValues = 256, kBytes = 98;
  static void decode(const uint8_t* from, float* to);
};
struct Iq3S {
  static constexpr int kValues = 256, kBytes = 110;
  static void decode(const uint8_t* from, float* to);
};
struct Iq1S {
  static constexpr int kValues = 256, kBytes = 50;
  static void decode(const uint8_t* from, float* to);
};
struct Iq1M {
  static constexpr int kValues = 256, kBytes = 56;
  static void decode(const uint8_t* from, float* to);
};
struct Tq10 {
  static constexpr int kValues = 256, kBytes = 54;
  static void decode(const uint8_t* from, float* to);
};
struct Tq20 {
  static constexpr int kValues = 256, kBytes = 66;
  static void decode(const uint8_t* from, float* to);
};

}  // namespace gguf
}  // namespace tachy
