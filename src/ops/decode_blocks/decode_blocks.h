// Decodes a matrix from blocks of GGUF (tensor/gguf_types.h: integers of 2 to 8 bits and the scales by which
// they are multiplied). Each value is the type's own float32, bit for bit, rounded once if y is narrower.
#pragma once

#include "tensor/gguf_types.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct DecodeBlocksArgs {
  const GgufType* type = nullptr;  // type of the blocks
  Tensor blocks;  // [M, C / block_values · block_bytes] u8, contiguous; a row consists of whole blocks
  Tensor y;       // [M, C] f32 (on a GPU also 16-bit), contiguous
};
void decode_blocks(const DecodeBlocksArgs& args, Stream& stream);

// Whether a GPU can decode this type. For other types the GPU gets the decoded values.
bool decodes_on_gpu(const GgufType& type);

}  // namespace tachy::ops
