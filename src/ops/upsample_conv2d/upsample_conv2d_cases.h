// Cases of upsample_conv2d.
#pragma once

#include "ops/op_case.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {

inline std::vector<OpCase> upsample_conv2d_cases() {
  using enum CaseKind;
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t f, int64_t h, int64_t w, int64_t ci, int64_t co, bool bias,
                       Compute compute) {
    const auto name = fmt::format("{}x{}x{}x{}to{}{}{}", f, h, w, ci, co, bias ? "-bias" : "",
                                  compute == Compute::bf16 ? "-bf16" : "");
    const double pixels = static_cast<double>(f) * h * w;
    cases.push_back({"upsample_conv2d", name, kind, 4 * pixels * (ci + 4 * co), 32 * pixels * ci * co,
                     [=](CaseMemory& memory) {
                       UpsampleConv2dArgs args{.x = memory.normal({f, h, w, ci})};
                       const Tensor weight = memory.host_weight({co, ci, 3, 3});
                       ThreadPool pool(1);
                       Arena arena(0);
                       Stream stream = memory.stream(arena, pool, compute);
                       args.packed = memory.packed(packed_upsample_conv2d_bytes(co, ci, stream));
                       if (!memory.blank()) pack_upsample_conv2d_weight(weight, args.packed, stream);
                       if (bias) args.bias = memory.param({co});
                       args.y = memory.output({f, 2 * h, 2 * w, co});
                       return bind_op("upsample_conv2d", upsample_conv2d, upsample_conv2d_table(),
                                      upsample_conv2d_working, args, {args.y}, compute);
                     }});
    cases.back().gpu = compute == Compute::f32;
  };
  for (const Compute compute : {Compute::f32, Compute::bf16}) {
    add(tiny, 1, 2, 3, 2, 3, true, compute);
    add(odd, 1, 1, 1, 5, 7, false, compute);
    add(odd, 2, 5, 9, 17, 3, true, compute);
    add(odd, 1, 35, 31, 8, 20, true, compute);
    add(tiny, 2, 9, 17, 64, 40, true, compute);  // aligned, as the GPU's fast kernels require
    add(tiny, 1, 16, 19, 32, 96, false, compute);
    add(real, 2, 32, 32, 384, 192, true, compute);
    add(real, 4, 64, 64, 192, 96, true, compute);
    add(real, 4, 120, 208, 192, 96, true, compute);
    add(real, 4, 240, 416, 192, 96, true, compute);
  }
  return cases;
}

}  // namespace tachy::ops
