// Cases of region_rope.
#pragma once

#include "ops/op_case.h"
#include "ops/region_rope/region_rope_impl.h"

namespace tachy::ops {

inline std::vector<OpCase> region_rope_cases() {
  std::vector<OpCase> cases;
  // `size` is that of the background; each speaker has 10. The smaller it is, the more tokens show the
  // background.
  const auto add = [&](CaseKind kind, int64_t tokens, int64_t heads, int64_t d, int64_t pairs, int64_t pad,
                       float size) {
    const auto name = fmt::format("{}x{}x{}-{}{}", tokens, heads, d, pairs, pad ? "-strided" : "");
    cases.push_back({"region_rope", name, kind, 4.0 * tokens * (3 * heads + 2 * pairs),
                     1.0 * tokens * (3 * heads + 40 * pairs), [=](CaseMemory& memory) {
                       RegionRopeArgs args{
                           .shares =
                               memory.normal({tokens, heads, d + pad}, 0.2f, 0.5f).slice(2, pad, d + pad),
                           .sizes = memory.param({3}),
                           .cos = memory.output(DType::f32, {tokens, pairs}),
                           .sin = memory.output(DType::f32, {tokens, pairs})};
                       float* sizes = memory.host(args.sizes).as<float>();
                       sizes[0] = sizes[1] = 10, sizes[2] = size;
                       return bind_op("region_rope", region_rope, region_rope_table(), region_rope_working,
                                      args, {args.cos, args.sin});
                     }});
  };
  add(CaseKind::tiny, 1, 1, 3, 1, 0, 10);
  add(CaseKind::tiny, 40, 4, 16, 8, 0, 0);  // no background
  add(CaseKind::tiny, 300, 2, 128, 64, 0, 8);
  add(CaseKind::odd, 1037, 3, 10, 5, 3, 9);
  add(CaseKind::odd, 777, 40, 33, 7, 1, 10.5f);
  add(CaseKind::real, 32760, 40, 128, 64, 0, 9.5f);
  return on_gpu(cases);
}

}  // namespace tachy::ops
