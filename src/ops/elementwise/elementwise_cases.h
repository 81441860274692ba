// Cases of the elementwise ops, whose results must be exact.
#pragma once

#include "ops/elementwise/elementwise_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline void widen_args(const WidenArgs& a, Stream& stream) { widen(a.x, a.y, stream); }
inline void to_rgb8_args(const ToRgb8Args& a, Stream& stream) { to_rgb8(a.x, a.y, stream); }
inline void clamp_args(const ClampArgs& a, Stream& stream) { clamp(a.x, a.lo, a.hi, stream); }
inline void all_finite_args(const AllFiniteArgs& a, Stream& stream) {
  const bool result = all_finite(a.x, stream);
  if (!stream.measuring()) *a.result = result;
}

inline void mark_nonfinite_args(const MarkNonfiniteArgs& a, Stream& stream) {
  mark_nonfinite(a.x, a.flag, stream);
}

inline void add_flat_cases(std::vector<OpCase>& cases, CaseKind kind, int64_t n) {
  const auto name = fmt::format("{}", n);
  for (const int count : {1, 3, 8})
    cases.push_back({"lincomb", fmt::format("{}-terms{}", n, count), kind, 4.0 * n * (count + 1),
                     2.0 * n * count, [=](CaseMemory& memory) {
                       LincombArgs args{.count = count, .out = memory.output(DType::f32, {n})};
                       for (int i = 0; i < count; ++i) args.terms[i] = {memory.param({n}), memory.random()};
                       return bind_op<LincombArgs>("lincomb", lincomb, lincomb_table(), nullptr, args,
                                                   {args.out});
                     }});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::f8_e5m2})
    cases.push_back({"widen", fmt::format("{}-{}", n, dtype_name(dtype)), kind, (4.0 + dtype_size(dtype)) * n,
                     0, [=](CaseMemory& memory) {
                       WidenArgs args{memory.normal_as(dtype, {n}), memory.output({n})};
                       return bind_op<WidenArgs>("widen", widen_args, widen_table(), nullptr, args, {args.y});
                     }});
  cases.push_back({"to_rgb8", fmt::format("{}x3", n), kind, 15.0 * n, 12.0 * n, [=](CaseMemory& memory) {
                     ToRgb8Args args{memory.normal({n, 3}, 0.6f), memory.output(DType::u8, {n, 3})};
                     return bind_op<ToRgb8Args>("to_rgb8", to_rgb8_args, to_rgb8_table(), nullptr, args,
                                                {args.y});
                   }});
  cases.push_back({"clamp", name, kind, 8.0 * n, 2.0 * n, [=](CaseMemory& memory) {
                     ClampArgs args{memory.inout(memory.normal({n})), -0.5f, 0.75f};
                     return bind_op<ClampArgs>("clamp", clamp_args, clamp_table(), nullptr, args, {args.x});
                   }});
  for (const bool finite : {true, false})
    cases.push_back(
        {"all_finite", fmt::format("{}-{}", n, finite), kind, 4.0 * n, 1.0 * n, [=](CaseMemory& memory) {
           const Tensor x = memory.normal({n}), y = memory.host_output(DType::u8, {1});
           if (!finite) memory.host(x).as<float>()[n - 1] = -std::numeric_limits<float>::infinity();
           AllFiniteArgs args{x, static_cast<bool*>(y.data)};
           return bind_op<AllFiniteArgs>("all_finite", all_finite_args, all_finite_table(), nullptr, args,
                                         {y});
         }});
  for (const bool finite : {true, false})
    cases.push_back(
        {"mark_nonfinite", fmt::format("{}-{}", n, finite), kind, 4.0 * n, 1.0 * n, [=](CaseMemory& memory) {
           const Tensor x = memory.normal({n});
           if (!finite) memory.host(x).as<float>()[n / 2] = std::numeric_limits<float>::quiet_NaN();
           const MarkNonfiniteArgs args{x, memory.inout(memory.rows(1, 1))};
           return bind_op<MarkNonfiniteArgs>("mark_nonfinite", mark_nonfinite_args, mark_nonfinite_table(),
                                             nullptr, args, {args.flag});
         }});
  for (OpCase& c : cases) c.waits = c.op == "all_finite";
}

// Copies from [C, T, H, W] in memory, seen as [T, H, W, C] (the decoder's input), or back.
inline void add_copy_case(std::vector<OpCase>& cases, CaseKind kind, int64_t c, int64_t t, int64_t h,
                          int64_t w, bool to_last, bool affine) {
  const auto name =
      fmt::format("{}x{}x{}x{}-{}{}", c, t, h, w, to_last ? "last" : "first", affine ? "-affine" : "");
  cases.push_back({"copy", name, kind, 8.0 * c * t * h * w, 0, [=](CaseMemory& memory) {
                     CopyArgs args;
                     if (to_last) {
                       args.x = memory.normal({c, t, h, w}).transpose(0, 1).transpose(1, 2).transpose(2, 3);
                       args.y = memory.output({t, h, w, c});
                       args.channel_axis = 3;
                     } else {
                       args.x = memory.normal({t, h, w, c}).transpose(2, 3).transpose(1, 2).transpose(0, 1);
                       args.y = memory.output({c, t, h, w});
                     }
                     if (affine) args.scale = memory.param({c}), args.shift = memory.param({c});
                     return bind_op<CopyArgs>("copy", copy, copy_table(), nullptr, args, {args.y});
                   }});
}

// Copies n values of each row, from column `skipped` on, out of wider rows into wider rows, as when keys go
// into a ring. The dtypes of both may differ.
inline void add_copy_rows_case(std::vector<OpCase>& cases, CaseKind kind, int64_t rows, int64_t n,
                               int64_t wider, int64_t skipped) {
  for (const int wide : {0, 1, 2}) {  // neither, x or y is f32 on a GPU too
    const auto name = fmt::format("{}x{}of{}from{}{}", rows, n, wider, skipped,
                                  wide == 0   ? ""
                                  : wide == 1 ? "-narrowed"
                                              : "-widened");
    cases.push_back({"copy", name, kind, 8.0 * rows * n, 0, [=](CaseMemory& memory) {
                       const Tensor x = wide == 1 ? memory.param({rows, wider})
                                                  : memory.normal({rows, wider}),
                                    y = wide == 2 ? memory.output(DType::f32, {rows, wider})
                                                  : memory.output({rows, wider});
                       const CopyArgs args{.x = x.slice(1, skipped, skipped + n),
                                           .y = y.slice(1, wider - skipped - n, wider - skipped)};
                       return bind_op<CopyArgs>("copy", copy, copy_table(), nullptr, args, {args.y});
                     }});
  }
}

inline std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  add_flat_cases(cases, CaseKind::tiny, 16);
  add_flat_cases(cases, CaseKind::odd, 50021);
  add_flat_cases(cases, CaseKind::real, 8 << 20);
  for (const bool last : {true, false}) {
    for (const bool affine : {true, false}) {
      add_copy_case(cases, CaseKind::tiny, 3, 1, 2, 2, last, affine);
      add_copy_case(cases, CaseKind::odd, 7, 3, 5, 9, last, affine);
      add_copy_case(cases, CaseKind::odd, 130, 1, 11, 13, last, affine);
    }
    add_copy_case(cases, CaseKind::tiny, 48, 2, 6, 10, last, true);
    add_copy_case(cases, CaseKind::real, 16, 21, 60, 104, last, true);
    add_copy_case(cases, CaseKind::real, 96, 1, 240, 416, last, false);
    add_copy_case(cases, CaseKind::real, 3, 1, 480, 832, last, false);
  }
  // Some rows can be copied in packs and some cannot, which depends on a row's length, its place and its
  // distance to the next.
  add_copy_rows_case(cases, CaseKind::tiny, 5, 16, 48, 16);
  add_copy_rows_case(cases, CaseKind::tiny, 37, 1024, 1048, 0);
  add_copy_rows_case(cases, CaseKind::tiny, 7, 12, 40, 8);
  add_copy_rows_case(cases, CaseKind::odd, 9, 16, 48, 3);
  add_copy_rows_case(cases, CaseKind::odd, 11, 24, 51, 8);
  add_copy_rows_case(cases, CaseKind::odd, 3, 13, 32, 16);
  add_copy_rows_case(cases, CaseKind::real, 2640, 1024, 3072, 1024);
  return on_gpu(cases);
}

}  // namespace tachy::ops
