#include "ops/decode_blocks/decode_blocks_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void decode_blocks_ref(const DecodeBlocksArgs& a, Stream& stream) {
  const int64_t blocks = a.y.numel() / a.type->block_values;
  const auto* from = static_cast<const std::byte*>(a.blocks.data);
  parallel_ranges(stream, blocks, 64, [&](int64_t begin, int64_t end, int) {
    a.type->decode(from + begin * a.type->block_bytes, end - begin,
                   a.y.as<float>() + begin * a.type->block_values);
  });
}

}  // namespace tachy::ops
