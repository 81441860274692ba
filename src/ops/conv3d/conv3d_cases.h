// Cases of causal_conv3d: each amount of history, the time-strided downsampler,
// kernels without space or time.
#pragma once

#include "ops/conv3d/conv3d_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct Conv3dOptions {
  int64_t kernel_t = 3, kernel = 3, time_stride = 1, front = -1;  // −1 means kernel_t − 1
  bool residual = false, alias = false;
  bool apart = false;  // y's frames have others between them
  int norm = 0;        // 1: the norm, without silu, replaces the sums in y; 2: it goes to `normed`
  Compute compute = Compute::f32;
};

struct Conv3dCase {
  CaseKind kind;
  int64_t frames, h, w, ci, co, history = 0;
  Conv3dOptions with;
};

inline BoundOp make_conv3d_case(CaseMemory& memory, const Conv3dCase& c) {
  CausalConv3dArgs args{.history = c.history, .time_stride = c.with.time_stride};
  args.front = c.with.front < 0 ? c.with.kernel_t - 1 : c.with.front;
  args.kernel_t = c.with.kernel_t, args.kernel_h = args.kernel_w = c.with.kernel;
  const int64_t to = (args.front + c.frames - c.with.kernel_t) / c.with.time_stride + 1;
  args.x = memory.normal({c.frames, c.h, c.w, c.ci});
  if (args.front > 0) args.cache = memory.normal({args.front, c.h, c.w, c.ci});
  const Tensor weight = memory.host_weight({c.co, c.ci, c.with.kernel_t, c.with.kernel, c.with.kernel});
  ThreadPool pool(1);
  Arena arena(0);
  Stream stream = memory.stream(arena, pool, c.with.compute);
  args.packed =
      memory.packed(packed_conv3d_bytes(c.co, c.ci, c.with.kernel_t, c.with.kernel, c.with.kernel, stream));
  if (!memory.blank()) pack_conv3d_weight(weight, args.packed, stream);
  args.bias = memory.param({c.co});
  if (c.with.residual) args.residual = memory.normal({to, c.h, c.w, c.co});
  args.y = c.with.alias ? memory.inout(args.residual)
                        : memory.output({c.with.apart ? 2 * to : to, c.h, c.w, c.co});
  if (c.with.apart) args.y.dims[0] = to, args.y.strides[0] *= 2;
  std::vector<Tensor> outputs{args.y};
  if (c.with.norm) args.gamma = memory.param({c.co}), args.silu = c.with.norm == 2;
  if (c.with.norm == 2) outputs.push_back(args.normed = memory.output({to, c.h, c.w, c.co}));
  return bind_op("causal_conv3d", causal_conv3d, causal_conv3d_table(), causal_conv3d_working, args, outputs,
                 c.with.compute);
}

inline OpCase conv3d_op_case(const Conv3dCase& c) {
  const auto name = fmt::format("{}x{}x{}x{}to{}-history{}-k{}{}{}-stride{}{}{}{}{}{}", c.frames, c.h, c.w,
                                c.ci, c.co, c.history, c.with.kernel_t, c.with.kernel, c.with.kernel,
                                c.with.time_stride, c.with.residual ? "-residual" : "",
                                c.with.alias ? "-alias" : "", c.with.apart ? "-apart" : "",
                                c.with.norm == 0   ? ""
                                : c.with.norm == 1 ? "-norm"
                                                   : "-normed",
                                c.with.compute == Compute::bf16 ? "-bf16" : "");
  const double pixels = static_cast<double>(c.frames) * c.h * c.w;
  return {.op = "causal_conv3d",
          .name = name,
          .kind = c.kind,
          .bytes = 4 * pixels * (c.ci + c.co),
          .flops =
              2 * pixels * c.ci * c.co * c.with.kernel_t * c.with.kernel * c.with.kernel / c.with.time_stride,
          .make = [c](CaseMemory& memory) { return make_conv3d_case(memory, c); },
          .gpu = c.with.compute == Compute::f32};
}

inline std::vector<OpCase> conv3d_cases() {
  using enum CaseKind;
  std::vector<OpCase> cases;
  const auto add = [&](auto c) {
    cases.push_back(conv3d_op_case(c));
    if (c.with.norm) return;
    c.with.compute = Compute::bf16;
    cases.push_back(conv3d_op_case(c));
  };
  add(Conv3dCase{tiny, 1, 3, 4, 2, 3});
  for (const int64_t history : {0, 1, 2}) add(Conv3dCase{odd, 3, 7, 9, 5, 17, history});
  add(Conv3dCase{odd, 1, 6, 5, 16, 3, 0});
  add(Conv3dCase{odd, 5, 3, 11, 3, 16, 2, {.residual = true}});
  add(Conv3dCase{odd, 4, 21, 33, 12, 20, 1, {.residual = true, .alias = true}});
  add(Conv3dCase{
      odd, 4, 5, 7, 24, 24, 1, {.kernel = 1, .time_stride = 2, .front = 1}});  // the time downsampler
  add(Conv3dCase{odd, 4, 5, 7, 24, 24, 0, {.kernel = 1, .time_stride = 2, .front = 1}});
  add(Conv3dCase{odd, 3, 5, 7, 17, 34, 1, {.kernel = 1}});  // the time upsampler
  add(Conv3dCase{odd, 3, 5, 7, 17, 34, 1, {.kernel = 1, .apart = true}});
  add(Conv3dCase{odd, 2, 9, 4, 19, 7, 0, {.kernel_t = 1, .kernel = 1, .residual = true}});
  add(Conv3dCase{odd, 3, 4, 4, 6, 6, 0, {.front = 4}});  // the first two outputs see no frame at all
  // Rows are aligned, as the GPU's fast kernels require. There are edges of tiles, every amount of history,
  // and time resampling.
  for (const int64_t history : {0, 1, 2})
    add(Conv3dCase{tiny, 3, 9, 19, 32, 96, history, {.residual = history == 1}});
  add(Conv3dCase{tiny, 2, 17, 9, 64, 200, 2, {.residual = true, .alias = true}});
  add(Conv3dCase{tiny, 1, 10, 17, 40, 48, 1});
  add(Conv3dCase{tiny, 2, 27, 19, 96, 96, 2, {.norm = 1}});
  add(Conv3dCase{tiny, 2, 27, 19, 96, 96, 2, {.residual = true, .alias = true, .norm = 2}});
  add(Conv3dCase{tiny, 3, 9, 33, 64, 192, 1, {.residual = true, .norm = 2}});
  add(Conv3dCase{tiny, 1, 9, 17, 192, 136, 0, {.norm = 2}});
  add(Conv3dCase{tiny, 2, 9, 17, 16, 8, 1, {.norm = 1}});
  add(Conv3dCase{tiny, 2, 5, 17, 32, 72, 0, {.norm = 1}});
  add(Conv3dCase{tiny, 2, 49, 33, 192, 192, 2, {.residual = true, .alias = true}});
  add(Conv3dCase{tiny, 4, 9, 17, 96, 3, 1});
  for (const int64_t history : {0, 1, 2}) add(Conv3dCase{tiny, 3, 27, 19, 64, 12, history});
  // Pairs of columns: even widths, and frames that are wide enough for "winograd".
  add(Conv3dCase{tiny, 2, 18, 20, 64, 96, 2, {.residual = true}});
  add(Conv3dCase{tiny, 2, 35, 38, 32, 176, 1, {.residual = true, .alias = true}});
  add(Conv3dCase{tiny, 1, 17, 112, 32, 64, 0});
  add(Conv3dCase{tiny, 3, 5, 113, 32, 88, 2, {.residual = true}});
  add(Conv3dCase{tiny, 1, 5, 114, 64, 96, 1, {.residual = true, .norm = 2}});
  add(Conv3dCase{tiny, 4, 9, 17, 3, 104, 1});
  // Patches of 2x2 pixels: every amount of history, edges of tiles and of channels.
  for (const int64_t history : {0, 1, 2}) add(Conv3dCase{tiny, 4, 19, 33, 12, 88, history});
  add(Conv3dCase{tiny, 1, 5, 17, 12, 8, 0, {.apart = true}});
  add(Conv3dCase{tiny, 3, 35, 16, 12, 160, 2});
  add(Conv3dCase{tiny, 2, 18, 114, 32, 80, 2, {.residual = true}});
  add(Conv3dCase{tiny, 4, 9, 7, 64, 72, 1, {.kernel = 1, .time_stride = 2, .front = 1}});
  add(Conv3dCase{tiny, 3, 5, 19, 96, 192, 1, {.kernel = 1}});
  add(Conv3dCase{tiny, 3, 5, 19, 96, 192, 1, {.kernel = 1, .apart = true}});
  add(Conv3dCase{tiny, 3, 4, 4, 8, 8, 0, {.front = 4}});
  add(Conv3dCase{real, 4, 128, 128, 96, 96, 2});  // Wan VAE 2.1, last level, small picture
  add(Conv3dCase{real, 4, 128, 128, 96, 3, 2});
  add(Conv3dCase{real, 4, 64, 64, 192, 192, 2});
  add(Conv3dCase{real, 2, 32, 32, 384, 384, 2});
  add(Conv3dCase{real, 1, 16, 16, 16, 384, 2});
  add(Conv3dCase{real, 2, 32, 32, 384, 768, 2, {.kernel = 1}});
  add(Conv3dCase{real, 4, 240, 416, 192, 192, 2, {.residual = true}});  // 480p, third level
  add(Conv3dCase{real, 2, 120, 208, 384, 384, 2, {.residual = true}});
  add(Conv3dCase{video, 4, 480, 832, 96, 96, 2, {.residual = true}});
  add(Conv3dCase{video, 4, 480, 832, 96, 96, 2});
  add(Conv3dCase{video, 4, 480, 832, 96, 96, 2, {.norm = 1}});
  add(Conv3dCase{video, 4, 480, 832, 96, 96, 2, {.residual = true, .norm = 2}});
  add(Conv3dCase{video, 4, 240, 416, 192, 192, 2});
  add(Conv3dCase{video, 4, 240, 416, 192, 192, 2, {.norm = 1}});
  add(Conv3dCase{video, 4, 240, 416, 192, 192, 2, {.residual = true, .norm = 2}});
  add(Conv3dCase{video, 4, 120, 208, 384, 384, 2});
  add(Conv3dCase{video, 2, 120, 208, 384, 384, 2});
  add(Conv3dCase{video, 1, 60, 104, 384, 384, 2});
  add(Conv3dCase{video, 4, 480, 832, 192, 96, 2});
  add(Conv3dCase{video, 4, 240, 416, 96, 192, 2});
  add(Conv3dCase{video, 4, 120, 208, 192, 384, 2});
  // Wan VAE 2.2
  add(Conv3dCase{video, 4, 352, 640, 256, 256, 2, {.residual = true}});
  add(Conv3dCase{video, 4, 352, 640, 512, 256, 2});
  add(Conv3dCase{video, 4, 176, 320, 512, 512, 2});
  add(Conv3dCase{video, 2, 88, 160, 1024, 1024, 2});
  add(Conv3dCase{video, 4, 352, 640, 256, 12, 2});
  add(Conv3dCase{video, 8, 352, 640, 12, 160, 2});
  add(Conv3dCase{video, 8, 352, 640, 160, 160, 2});
  add(Conv3dCase{video, 8, 176, 320, 320, 320, 2, {.residual = true}});
  add(Conv3dCase{real, 4, 480, 832, 96, 3, 2});
  add(Conv3dCase{real, 4, 480, 832, 3, 96, 2});
  return cases;
}

}  // namespace tachy::ops
