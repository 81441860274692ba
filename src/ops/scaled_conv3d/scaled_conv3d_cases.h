// Cases of scaled_conv3d: every amount of history, each kind of result, sizes that no tile divides.
#pragma once

#include "ops/op_case.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"

namespace tachy::ops {

// The op's results: the sums as y; their norm as codes, beside the sums or in place of them; the norm as
// numbers in place of the sums.
enum class ScaledConv3dResult { sums, codes, sums_and_codes, normed };

struct ScaledConv3dCase {
  CaseKind kind;
  int64_t frames, h, w, ci, co, history = 0;
  ScaledConv3dResult result = ScaledConv3dResult::sums;
  bool residual = false, alias = false;
  DType codes = DType::f8_e4m3;
};

// Codes of normally distributed values, as a norm would leave them: about ±48 of ±448, or of ±127.
inline Tensor scaled_conv3d_case_codes(CaseMemory& memory, DType dtype, std::initializer_list<int64_t> dims) {
  const Tensor codes = memory.normal_as(dtype, dims);
  if (memory.blank()) return codes;
  const Tensor values = memory.host(codes);
  std::vector<uint8_t> some(size_t{1} << 12);
  for (uint8_t& code : some) code = code_of(16.0f * memory.random(), dtype);
  auto* to = static_cast<uint8_t*>(values.data);
  const int64_t last = memory.drawn(values.numel()) - 1;
  for (int64_t i = 0; i <= last; ++i)  // the random bits in memory choose the codes
    to[i] = some[static_cast<size_t>(to[i] | (i < last ? to[i + 1] & 15 : 0) << 8)];
  return codes;
}

inline BoundOp make_scaled_conv3d_case(CaseMemory& memory, const ScaledConv3dCase& c) {
  using enum ScaledConv3dResult;
  ScaledConv3dArgs args{.history = c.history};
  args.x = scaled_conv3d_case_codes(memory, c.codes, {c.frames, c.h, c.w, c.ci});
  args.cache = scaled_conv3d_case_codes(memory, c.codes, {2, c.h, c.w, c.ci});
  const Tensor weight = memory.host_weight({c.co, c.ci, 3, 3, 3});
  ThreadPool pool(1);
  Arena arena(0);
  Stream stream = memory.stream(arena, pool, Compute::f32);
  args.packed = memory.packed(packed_scaled_conv3d_bytes(c.co, c.ci, stream));
  // Makes sums of about 1, so that the residual and the bias matter.
  if (!memory.blank())
    pack_scaled_conv3d_weight(weight, 1 / (16 * std::sqrt(27.0f * static_cast<float>(c.ci))), args.packed,
                              stream, c.codes);
  args.bias = memory.param({c.co});
  const auto numbers = [&] { return memory.output({c.frames, c.h, c.w, c.co}); };
  if (c.residual) args.residual = memory.normal({c.frames, c.h, c.w, c.co});
  std::vector<Tensor> outputs;
  if (c.result == sums || c.result == sums_and_codes)
    outputs.push_back(args.y = c.alias ? memory.inout(args.residual) : numbers());
  if (c.result != sums)
    args.gamma = memory.param({c.co}), args.normed_scale = c.codes == DType::i8 ? 0.03f : 0.01f;
  if (c.result == normed) outputs.push_back(args.normed = c.alias ? memory.inout(args.residual) : numbers());
  if (c.result == codes || c.result == sums_and_codes)
    outputs.push_back(args.normed = memory.output(c.codes, {c.frames, c.h, c.w, c.co}));
  return bind_op("scaled_conv3d", scaled_conv3d, scaled_conv3d_table(), scaled_conv3d_working, args, outputs);
}

inline OpCase scaled_conv3d_op_case(const ScaledConv3dCase& c) {
  using enum ScaledConv3dResult;
  const char* results[] = {"", "-codes", "-sums-codes", "-normed"};
  const auto name = fmt::format(
      "{}{}x{}x{}x{}to{}-history{}{}{}{}", c.codes == DType::i8 ? "i8-" : "", c.frames, c.h, c.w, c.ci, c.co,
      c.history, results[static_cast<int>(c.result)], c.residual ? "-residual" : "", c.alias ? "-alias" : "");
  const double pixels = 1.0 * c.frames * c.h * c.w;
  const double out = c.result == codes ? 1 : c.result == sums_and_codes ? 3 : 2;  // bytes, 16-bit numbers
  return {.op = "scaled_conv3d",
          .name = name,
          .kind = c.kind,
          .bytes = pixels * (c.ci + (out + (c.residual ? 2 : 0)) * c.co),
          .flops = 2 * pixels * c.ci * c.co * 27,
          .make = [c](CaseMemory& memory) { return make_scaled_conv3d_case(memory, c); },
          .gpu = true,
          .gpu_factor = 3};  // Hopper's products of e4m3 add with about 14 bits
}

inline std::vector<OpCase> scaled_conv3d_cases() {
  using enum CaseKind;
  using enum ScaledConv3dResult;
  std::vector<OpCase> cases;
  const auto add = [&](const ScaledConv3dCase& c) { cases.push_back(scaled_conv3d_op_case(c)); };
  add({tiny, 1, 3, 4, 2, 3});
  for (const int64_t history : {0, 1, 2}) add({odd, 3, 7, 9, 5, 17, history});
  add({odd, 2, 5, 11, 24, 20, 1, sums, true, true});
  add({odd, 2, 6, 5, 16, 12, 2, sums_and_codes, true, true});
  add({odd, 1, 6, 5, 16, 12, 0, codes});
  add({odd, 2, 6, 5, 16, 12, 1, normed, true, true});
  // Rows are aligned, as the GPU's kernel requires. There are all of its tiles, their edges, and every amount
  // of history.
  for (const int64_t history : {0, 1, 2}) add({tiny, 3, 9, 19, 32, 96, history, sums, history == 1});
  add({tiny, 2, 9, 17, 16, 16, 1, codes});
  add({tiny, 2, 9, 17, 48, 64, 2, sums_and_codes, true, true});
  add({tiny, 1, 17, 9, 64, 200, 2, sums, true, true});
  add({tiny, 2, 27, 19, 96, 96, 2, codes});
  add({tiny, 2, 27, 19, 96, 96, 2, sums_and_codes, true, true});
  add({tiny, 2, 27, 19, 96, 96, 1, normed, true, true});
  add({tiny, 2, 9, 17, 64, 192, 1, sums_and_codes, true});
  add({tiny, 1, 25, 19, 192, 192, 2, codes, true});
  add({tiny, 1, 9, 17, 192, 136, 0, codes});
  add({tiny, 1, 9, 17, 128, 128, 2, sums_and_codes, true});
  add({tiny, 1, 9, 9, 384, 384, 2, sums, true, true});
  for (const int64_t history : {0, 1, 2}) add({tiny, 2, 17, 19, 160, 160, history, sums_and_codes, true});
  add({tiny, 2, 9, 17, 160, 320, 1, codes});
  add({tiny, 1, 25, 19, 320, 320, 2, sums, true, true});
  const auto in_int8 = [&](ScaledConv3dCase c) { c.codes = DType::i8, add(c); };
  in_int8({odd, 2, 5, 11, 24, 20, 1, sums, true, true});
  in_int8({odd, 2, 6, 5, 16, 12, 2, sums_and_codes, true, true});
  for (const int64_t history : {0, 1, 2}) in_int8({tiny, 3, 9, 19, 32, 96, history, sums, history == 1});
  in_int8({tiny, 1, 17, 9, 64, 200, 2, sums, true, true});
  in_int8({tiny, 2, 27, 19, 96, 96, 2});
  in_int8({tiny, 1, 25, 19, 192, 192, 2, sums, true});
  in_int8({tiny, 1, 9, 9, 384, 384, 2, sums, true, true});
  in_int8({video, 4, 480, 832, 96, 96, 2, sums, true, true});
  in_int8({video, 4, 240, 416, 192, 192, 2});
  in_int8({video, 4, 120, 208, 384, 384, 2});
  add({real, 4, 128, 128, 96, 96, 2, codes});  // Wan VAE 2.1, last level, small picture
  add({real, 4, 64, 64, 192, 192, 2, sums_and_codes, true, true});
  for (const ScaledConv3dResult result : {sums, codes, sums_and_codes}) {
    const bool residual = result != codes;
    add({video, 4, 480, 832, 96, 96, 2, result, residual, residual});
    add({video, 4, 240, 416, 192, 192, 2, result, residual, residual});
  }
  add({video, 4, 480, 832, 192, 96, 2});
  add({video, 8, 352, 640, 160, 160, 2, sums_and_codes, true});
  add({video, 8, 176, 320, 320, 320, 2, sums, true, true});
  add({video, 4, 88, 160, 640, 640, 2, sums, true, true});
  add({video, 4, 120, 208, 384, 384, 2, sums, true, true});
  add({video, 2, 120, 208, 384, 384, 2});
  add({video, 1, 60, 104, 384, 384, 2});
  // Wan VAE 2.2
  add({video, 4, 352, 640, 256, 256, 2, sums, true, true});
  add({video, 4, 352, 640, 256, 256, 2, codes});
  add({video, 4, 352, 640, 512, 256, 2});
  add({video, 4, 176, 320, 512, 512, 2});
  add({video, 2, 88, 160, 1024, 1024, 2});
  return cases;
}

}  // namespace tachy::ops
