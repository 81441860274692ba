// The types of GGUF's tensors. A plain one is a dtype of ours; a quantised one stores blocks of 32 or 256
// neighbouring values of a row: integers of 2 to 8 bits and the scales that they are multiplied with.
//
// decode gives the float32 that the reference (the `gguf` Python package) gives, bit for bit: every product
// and every difference is rounded once, in the reference's order, and nothing is fused.
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
  DecodeBlocks decode = nullptr;  // for a quantised type; null for one of which only the size is known
};

const GgufType* find_gguf_type(uint32_t id);            // nullptr for an unknown one
const GgufType* find_gguf_type(std::string_view name);  // "q8_0"; the same

// Each type of block has one struct, defined in the file of its family.
namespace gguf {

// Decodes all blocks of a run, one after another.
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

// The same with 1 to 3 bits per value.
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
