// Cases of patchify and unpatchify, which only move data, so that results must be exact.
#pragma once

#include <numeric>

#include "ops/op_case.h"
#include "ops/patchify/patchify_impl.h"

namespace tachy::ops {

inline std::vector<OpCase> patchify_cases() {
  std::vector<OpCase> cases;
  // Makes a permutation of `count` tokens.
  const auto places = [](CaseMemory& memory, int64_t count) {
    const Tensor place = memory.rows(count, 1 << 30);  // random numbers that say where to draw from
    auto* values = memory.host(place).as<int32_t>();
    std::vector<int32_t> left(static_cast<size_t>(count));
    std::iota(left.begin(), left.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
      std::swap(left[static_cast<size_t>(i)], left[static_cast<size_t>(i + values[i] % (count - i))]);
      values[i] = left[static_cast<size_t>(i)];
    }
    return place;
  };
  const auto add = [&](CaseKind kind, int64_t b, int64_t c, int64_t t, int64_t h, int64_t w, int64_t pt,
                       int64_t ph, int64_t pw, bool moved = false) {
    const auto name =
        fmt::format("{}x{}x{}x{}x{}-by{}x{}x{}{}", b, c, t, h, w, pt, ph, pw, moved ? "-moved" : "");
    const int64_t l = t / pt * (h / ph) * (w / pw), values = c * pt * ph * pw;
    cases.push_back({"patchify", name, kind, 8.0 * b * l * values, 0, [=](CaseMemory& memory) {
                       PatchifyArgs args{.x = memory.param({b, c, t, h, w}),
                                         .patch_t = pt,
                                         .patch_h = ph,
                                         .patch_w = pw,
                                         .y = memory.output({b, l, values})};
                       if (moved) args.place = places(memory, l);
                       return bind_op<PatchifyArgs>("patchify", patchify, patchify_table(), nullptr, args,
                                                    {args.y});
                     }});
    cases.push_back({"unpatchify", name, kind, 8.0 * b * l * values, 0, [=](CaseMemory& memory) {
                       UnpatchifyArgs args{.x = memory.normal({b, l, values}),
                                           .patch_t = pt,
                                           .patch_h = ph,
                                           .patch_w = pw,
                                           .y = memory.output(DType::f32, {b, c, t, h, w})};
                       if (moved) args.place = places(memory, l);
                       return bind_op<UnpatchifyArgs>("unpatchify", unpatchify, unpatchify_table(), nullptr,
                                                      args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 1, 2, 1, 2, 2, 1, 2, 2);
  add(CaseKind::odd, 2, 3, 4, 6, 9, 2, 2, 3);
  add(CaseKind::tiny, 2, 2, 2, 4, 6, 1, 2, 2, true);
  add(CaseKind::odd, 2, 3, 4, 6, 9, 2, 2, 3, true);
  add(CaseKind::odd, 1, 300, 2, 4, 46, 1, 2, 2, true);  // a row of patches is too long for shared memory
  add(CaseKind::real, 1, 16, 21, 60, 104, 1, 2, 2, true);
  add(CaseKind::real, 1, 16, 21, 90, 160, 1, 2, 2);
  add(CaseKind::real, 1, 16, 21, 60, 104, 1, 2, 2);
  return on_gpu(cases);
}

}  // namespace tachy::ops
