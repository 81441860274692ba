// Encodes values as blocks of GGUF (for the types with one scale for all values of a block) or as plain
// floats:
//
//   q8_0         d = max|x| / 127           q = round(x / d), halves away from zero
//   q4_0, q5_0   d = x* / -8, x* / -16      q = ⌊x / d + 8.5⌋, ⌊x / d + 16.5⌋     x*: the value farthest from zero
//   q4_1, q5_1   d = (max - min) / 15, 31   q = ⌊(x - min) / d + 0.5⌋
//
// The result equals bit for bit what the `gguf` Python package makes of float32. The order of roundings is
// the same: x is multiplied by the rounded 1 / d, and d is rounded to float16 only when it is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/gguf_types.h"

namespace tachy {

// Encodes `count` blocks of finite values.
using EncodeBlocks = void (*)(const float* from, int64_t count, std::byte* to);

EncodeBlocks gguf_encoder(const GgufType& type);  // returns nullptr if the type has no encoder
// Returns the names of the types that have an encoder, largest blocks first.
std::vector<std::string_view> encodable_gguf_types();

}  // namespace tachy
