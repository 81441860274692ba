// Cases of conv2d: odd sizes, the downsampler's padding, single pixels, end layers with few channels.
#pragma once

#include "ops/conv2d/conv2d_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct Conv2dOptions {
  int64_t kernel = 3, stride = 1;
  bool bias = true, residual = false, alias = false;
  Compute compute = Compute::f32;
  DType dtype = DType::f32;
};

struct Conv2dCase {
  CaseKind kind;
  int64_t frames, h, w, ci, co;
  Conv2dOptions with;
};

inline BoundOp make_conv2d_case(CaseMemory& memory, const Conv2dCase& c) {
  Conv2dArgs args{.kernel_h = c.with.kernel, .kernel_w = c.with.kernel, .stride = c.with.stride};
  const int64_t pad = (c.with.kernel - 1) / 2, before = c.with.stride == 1 ? pad : 0;
  args.pad_top = args.pad_left = before;
  args.pad_bottom = args.pad_right = c.with.stride == 1 ? pad : 1;
  const int64_t ho = (c.h + before + args.pad_bottom - c.with.kernel) / c.with.stride + 1;
  const int64_t wo = (c.w + before + args.pad_right - c.with.kernel) / c.with.stride + 1;
  args.x = memory.normal({c.frames, c.h, c.w, c.ci});
  const Tensor weight = c.with.dtype == DType::f32
                            ? memory.host_weight({c.co, c.ci, c.with.kernel, c.with.kernel})
                            : memory.normal_as(c.with.dtype, {c.co, c.ci, c.with.kernel, c.with.kernel});
  ThreadPool pool(1);
  Arena arena(0);
  Stream stream = memory.stream(arena, pool, c.with.compute);
  args.packed = memory.packed(packed_conv2d_bytes(c.co, c.ci, c.with.kernel, c.with.kernel, stream));
  if (!memory.blank()) pack_conv2d_weight(weight, args.packed, stream);
  if (c.with.bias) args.bias = memory.param({c.co});
  if (c.with.residual) args.residual = memory.normal({c.frames, ho, wo, c.co});
  args.y = c.with.alias ? memory.inout(args.residual) : memory.output({c.frames, ho, wo, c.co});
  return bind_op("conv2d", conv2d, conv2d_table(), conv2d_working, args, {args.y}, c.with.compute);
}

inline OpCase conv2d_op_case(const Conv2dCase& c) {
  const auto name = fmt::format("{}x{}x{}x{}to{}-k{}s{}-{}{}{}{}{}", c.frames, c.h, c.w, c.ci, c.co,
                                c.with.kernel, c.with.stride, dtype_name(c.with.dtype),
                                c.with.bias ? "-bias" : "", c.with.residual ? "-residual" : "",
                                c.with.alias ? "-alias" : "", c.with.compute == Compute::bf16 ? "-bf16" : "");
  const double pixels = static_cast<double>(c.frames) * c.h * c.w,
               outputs = pixels / (c.with.stride * c.with.stride);
  OpCase made{"conv2d",
              name,
              c.kind,
              4 * (pixels * c.ci + outputs * c.co),
              2 * outputs * c.ci * c.co * c.with.kernel * c.with.kernel,
              [c](CaseMemory& memory) { return make_conv2d_case(memory, c); }};
  made.gpu = c.with.compute == Compute::f32 && c.with.dtype == DType::f32;
  return made;
}

inline std::vector<OpCase> conv2d_cases() {
  using enum CaseKind;
  std::vector<OpCase> cases;
  const auto add = [&](auto c) {
    cases.push_back(conv2d_op_case(c));
    c.with.compute = Compute::bf16;
    cases.push_back(conv2d_op_case(c));
  };
  add(Conv2dCase{tiny, 1, 3, 4, 2, 3});
  add(Conv2dCase{odd, 2, 7, 9, 3, 5});
  add(Conv2dCase{odd, 1, 1, 1, 16, 8, {.bias = false}});
  add(Conv2dCase{odd, 3, 5, 1, 17, 33, {.residual = true}});
  add(Conv2dCase{odd, 1, 37, 29, 12, 20, {.residual = true, .alias = true}});
  add(Conv2dCase{odd, 1, 19, 65, 96, 3});  // bands of several rows with a short last one
  add(Conv2dCase{odd, 2, 7, 9, 8, 24, {.stride = 2}});
  add(Conv2dCase{odd, 1, 18, 34, 5, 16, {.stride = 2, .residual = true}});
  add(Conv2dCase{odd, 2, 5, 7, 17, 129, {.kernel = 1}});
  add(Conv2dCase{odd, 1, 9, 9, 6, 6, {.kernel = 5, .dtype = DType::bf16}});
  add(Conv2dCase{odd, 1, 4, 6, 10, 12, {.dtype = DType::f16}});
  // Rows are aligned, as the GPU's fast kernels require.
  add(Conv2dCase{tiny, 2, 17, 20, 32, 40, {.residual = true}});
  add(Conv2dCase{tiny, 1, 19, 34, 96, 104, {.stride = 2}});
  add(Conv2dCase{tiny, 1, 7, 18, 64, 16, {.kernel = 1}});
  add(Conv2dCase{tiny, 1, 7, 18, 16, 8, {.kernel = 5}});
  add(Conv2dCase{real, 4, 128, 128, 96, 96});
  add(Conv2dCase{real, 4, 64, 64, 192, 192, {.stride = 2}});
  add(Conv2dCase{real, 1, 60, 104, 384, 384, {.kernel = 1}});
  return cases;
}

}  // namespace tachy::ops
