// Cases of embedding, whose results must be exact.
#pragma once

#include "ops/embedding/embedding_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t m, int64_t v, int64_t c, DType dtype) {
    const auto name = fmt::format("{}of{}x{}-{}", m, v, c, dtype_name(dtype));
    cases.push_back(
        {"embedding", name, kind, (4.0 + dtype_size(dtype)) * m * c, 0, [=](CaseMemory& memory) {
           EmbeddingArgs args{
               .ids = memory.ids(m, v), .table = memory.normal_as(dtype, {v, c}), .y = memory.output({m, c})};
           return bind_op<EmbeddingArgs>("embedding", embedding, embedding_table(), nullptr, args, {args.y});
         }});
  };
  add(CaseKind::tiny, 2, 3, 8, DType::f32);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::f64})
    add(CaseKind::odd, 7, 11, 33, dtype);
  add(CaseKind::real, 512, 4096, 4096, DType::bf16);
  return cases;
}

}  // namespace tachy::ops
