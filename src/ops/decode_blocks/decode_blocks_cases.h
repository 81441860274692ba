// Cases of decode_blocks, whose results must be exact.
#pragma once

#include "ops/decode_blocks/decode_blocks_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

// Random blocks whose float16 scales are finite: the upper bit of their exponents is cleared.
inline Tensor decode_blocks_case_input(CaseMemory& memory, const GgufType& type, int64_t rows,
                                       int64_t blocks) {
  struct Scales {
    uint32_t id;
    int at[2];  // offsets of float16 values in a block
  };
  static constexpr Scales scales[] = {{2, {0, 0}},  {3, {0, 2}},      {6, {0, 0}},      {7, {0, 2}},
                                      {8, {0, 0}},  {10, {80, 82}},   {11, {108, 108}}, {12, {0, 2}},
                                      {13, {0, 2}}, {14, {208, 208}}, {20, {0, 0}},     {23, {0, 0}}};
  const int64_t bytes = rows * blocks * type.block_bytes;
  const Tensor words = memory.rows((bytes + 3) / 4, 1 << 30);
  auto* at = static_cast<uint8_t*>(memory.host(words).data);
  for (int64_t i = 3; i < bytes; i += 4)
    at[i] = static_cast<uint8_t>(at[i - 1] * 5 + at[i] * 3);  // all of its 8 bits change, too
  for (const Scales& s : scales)
    if (s.id == type.id)
      for (int64_t b = 0; b < rows * blocks; ++b)
        for (const int offset : s.at) at[b * type.block_bytes + offset + 1] &= 0xbf;
  return Tensor(words.data, DType::u8, {rows, blocks * type.block_bytes}, words.device);
}

inline std::vector<OpCase> decode_blocks_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, const char* name, int64_t rows, int64_t blocks) {
    const GgufType* type = find_gguf_type(name);
    const double values = 1.0 * rows * blocks * type->block_values,
                 bytes = 1.0 * rows * blocks * type->block_bytes;
    cases.push_back({"decode_blocks", fmt::format("{}x{}-{}", rows, blocks * type->block_values, name), kind,
                     bytes + 2 * values, values, [=](CaseMemory& memory) {
                       const DecodeBlocksArgs args{
                           .type = type,
                           .blocks = decode_blocks_case_input(memory, *type, rows, blocks),
                           .y = memory.output({rows, blocks * type->block_values})};
                       return bind_op<DecodeBlocksArgs>("decode_blocks", decode_blocks, decode_blocks_table(),
                                                        nullptr, args, {args.y});
                     }});
  };
  for (const char* name : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
                           "iq4_nl", "iq4_xs", "mxfp4"}) {
    const int64_t width = find_gguf_type(name)->block_values;
    add(CaseKind::tiny, name, 1, 1);
    add(CaseKind::odd, name, 7, 3);
    add(CaseKind::real, name, 300, 5120 / width);
    add(CaseKind::video, name, 5120, 5120 / width);  // sizes of a 14B model
  }
  return on_gpu(cases);
}

}  // namespace tachy::ops
