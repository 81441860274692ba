// Cases of choose_blocks.
#pragma once

#include "ops/choose_blocks/choose_blocks_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> choose_blocks_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t b, l, h, d, keep, room = 0;  // room: free places in a list after the kept ones
    bool fused = false;                  // q and k are slices of one [B, L, 3, H, D]
    float ties = 1;                      // with 0 all values are the same
  };
  const auto add = [&](CaseKind kind, Shape s) {
    const int64_t blocks = chosen_blocks(s.l);
    const auto name = fmt::format("{}x{}x{}x{}-keep{}{}{}{}", s.b, s.l, s.h, s.d, s.keep,
                                  s.room ? fmt::format("of{}", s.keep + s.room) : "", s.fused ? "-fused" : "",
                                  s.ties == 0 ? "-ties" : "");
    const double values = 1.0 * s.b * s.h * s.d;
    cases.push_back({"choose_blocks", name, kind, 8.0 * values * s.l,
                     values * (2.0 * s.l + 2.0 * blocks * blocks), [=](CaseMemory& memory) {
                       ChooseBlocksArgs args{.keep = s.keep};
                       if (s.fused) {
                         const Tensor qkv = memory.normal({s.b, s.l, 3, s.h, s.d});
                         args.q = qkv.select(2, 0), args.k = qkv.select(2, 1);
                       } else {
                         args.q = memory.normal({s.b, s.l, s.h, s.d}, s.ties, 0.5f);
                         args.k = memory.normal({s.b, s.l, s.h, s.d}, s.ties, 0.5f);
                       }
                       args.indices = memory.output(DType::i32, {s.b, s.h, blocks, s.keep + s.room});
                       args.counts = memory.output(DType::i32, {s.b, s.h, blocks});
                       return bind_op<ChooseBlocksArgs>("choose_blocks", choose_blocks, choose_blocks_table(),
                                                        nullptr, args, {args.indices, args.counts});
                     }});
  };
  add(CaseKind::tiny, {1, 1, 1, 1, 1});
  add(CaseKind::tiny, {1, 300, 2, 8, 2});
  add(CaseKind::tiny, {2, 1000, 2, 64, 3, 2, true});
  add(CaseKind::tiny, {1, 700, 1, 16, 4, 0, false, 0});
  add(CaseKind::odd, {2, 1111, 3, 20, 5, 1});
  add(CaseKind::odd, {1, 777, 1, 130, 7});
  add(CaseKind::real, {1, 8192, 12, 128, 20, 0, true});
  add(CaseKind::video, {1, 32760, 12, 128, 77, 0, true});
  return on_gpu(cases);
}

}  // namespace tachy::ops
