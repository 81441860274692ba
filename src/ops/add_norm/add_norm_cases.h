// Cases of add_norm.
#pragma once

#include "ops/add_norm/add_norm_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct AddNormCase {
  int64_t m, c;
  NormKind kind;
  bool weight = true, bias = false, sum = true, in_place = false;  // in_place: sum is x
  int64_t pad = 0;
  float offset = 0;   // mean of x, to provoke cancellation
  int64_t rows = 0;   // rows of gate, scale and shift
  bool wide = false;  // x and sum are f32 on the GPU, too
  bool codes = false;
};

inline BoundOp make_add_norm_case(CaseMemory& memory, const AddNormCase& s) {
  const CaseMemory::Dims dims = {s.m, s.c + s.pad};
  const Tensor x = s.wide ? memory.param(dims, 1, s.offset) : memory.normal(dims, 1, s.offset);
  AddNormArgs args{.x = x.slice(1, 0, s.c),
                   .u = memory.normal({s.m, s.c + s.pad}).slice(1, s.pad, s.c + s.pad),
                   .kind = s.kind};
  if (s.weight) args.weight = memory.param({s.c});
  if (s.bias) args.bias = memory.param({s.c});
  if (s.rows) {
    args.gate = memory.param({s.rows, s.c + s.pad}).slice(1, 0, s.c);
    args.scale = memory.param({s.rows, s.c + s.pad}).slice(1, s.pad, s.c + s.pad);
    args.shift = memory.param({s.rows, s.c + s.pad}).slice(1, 0, s.c);
  }
  if (s.rows > 1) args.row = memory.rows(s.m, s.rows);
  if (s.sum)
    args.sum = s.in_place ? memory.inout(args.x)
                          : (s.wide ? memory.output(DType::f32, {s.m, s.c + s.pad})
                                    : memory.output({s.m, s.c + s.pad}))
                                .slice(1, s.pad, s.c + s.pad);
  const Tensor y =
      s.codes ? memory.output(DType::f8_e4m3, {s.m, s.c + s.pad}) : memory.output({s.m, s.c + s.pad});
  args.y = y.slice(1, 0, s.c);
  if (s.codes) args.y_scale = memory.output(DType::f32, {s.m});
  BoundOp bound = bind_op("add_norm", add_norm, add_norm_table(), add_norm_working, args,
                          s.sum ? std::vector{args.y, args.sum} : std::vector{args.y});
  // The scale is not judged: it depends on y rounded to u's dtype, and float32's bounds
  // do not cover that rounding.
  if (s.codes) bound.written = bound.outputs, bound.written.push_back(args.y_scale);
  return bound;
}

inline void add_add_norm_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, NormKind norm, bool dsum) {
    cases.push_back(
        {"add_norm_backward",
         fmt::format("{}x{}-{}{}", m, c, norm == NormKind::rms ? "rms" : "layer", dsum ? "-dsum" : ""), kind,
         16.0 * m * c, 12.0 * m * c, [=](CaseMemory& memory) {
           AddNormBackwardArgs args{.sum = memory.normal({m, c}), .kind = norm, .weight = memory.param({c})};
           args.dy = memory.normal({m, c});
           if (dsum) args.dsum = memory.normal({m, c});
           args.dx = memory.output({m, c}), args.dweight = memory.output(DType::f32, {c}),
           args.dbias = memory.output(DType::f32, {c});
           return bind_op("add_norm_backward", add_norm_backward, add_norm_backward_table(),
                          add_norm_backward_working, args, {args.dx, args.dweight, args.dbias});
         }});
  };
  add(CaseKind::tiny, 3, 16, NormKind::layer, true);
  add(CaseKind::odd, 37, 333, NormKind::rms, true);
  add(CaseKind::odd, 5, 77, NormKind::layer, false);
  add(CaseKind::tiny, 67, 1536, NormKind::layer, true);
  add(CaseKind::tiny, 67, 5120, NormKind::rms, true);
  add(CaseKind::video, 32760, 1536, NormKind::layer, true);
}

inline std::vector<OpCase> add_norm_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, AddNormCase s) {
    const auto flag = [](bool on, const char* name) { return on ? name : ""; };
    const auto name = fmt::format(
        "{}x{}-{}{}{}{}{}{}{}{}{}{}", s.m, s.c, s.kind == NormKind::rms ? "rms" : "layer",
        flag(s.weight, "-weight"), flag(s.bias, "-bias"), flag(s.sum, "-sum"), flag(s.in_place, "-inplace"),
        flag(s.pad != 0, "-strided"), flag(s.offset != 0, "-offset"),
        s.rows ? fmt::format("-rows{}", s.rows) : "", flag(s.wide, "-wide"), flag(s.codes, "-codes"));
    const double values = 1.0 * s.m * s.c;
    cases.push_back({"add_norm", name, kind, (s.sum ? 16 : 12) * values - (s.codes ? 3 : 0) * values,
                     7 * values, [=](CaseMemory& memory) { return make_add_norm_case(memory, s); }});
    // A 16-bit sum with mean 100 has 2 to 4 bits less for the norm to read; L rounds only the outputs.
    if (s.offset != 0) cases.back().gpu_factor = 8;
  };
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    const bool bias = kind == NormKind::layer;
    add(CaseKind::tiny, {.m = 1, .c = 1, .kind = kind});
    add(CaseKind::tiny, {.m = 3, .c = 64, .kind = kind, .weight = false, .sum = false});
    add(CaseKind::odd, {.m = 5, .c = 77, .kind = kind, .bias = bias, .pad = 3});
    add(CaseKind::odd, {.m = 37, .c = 1001, .kind = kind, .bias = !bias, .in_place = true});
    add(CaseKind::odd, {.m = 7, .c = 131, .kind = kind, .bias = bias, .sum = false, .offset = 100});
    add(CaseKind::odd, {.m = 11, .c = 123, .kind = kind, .pad = 1, .rows = 3});
    add(CaseKind::odd, {.m = 6, .c = 123, .kind = kind, .in_place = true, .rows = 1, .wide = true});
    for (const int64_t c : {96, 1536, 2048, 3072, 5120}) {
      add(CaseKind::tiny, {.m = 7, .c = c, .kind = kind, .bias = bias, .rows = 2});
      add(CaseKind::tiny, {.m = 5, .c = c, .kind = kind, .in_place = true, .rows = 1, .wide = true});
      add(CaseKind::tiny, {.m = 7, .c = c, .kind = kind, .bias = bias, .rows = 2, .codes = true});
      add(CaseKind::tiny, {.m = 70,
                           .c = c,
                           .kind = kind,
                           .weight = false,
                           .in_place = true,
                           .rows = 1,
                           .wide = true,
                           .codes = true});
    }
    add(CaseKind::video, {.m = 32760, .c = 1536, .kind = kind, .weight = false, .in_place = true, .rows = 1});
    add(CaseKind::video, {.m = 32760, .c = 5120, .kind = kind, .weight = false, .in_place = true, .rows = 1});
    add(CaseKind::video,
        {.m = 32760, .c = 5120, .kind = kind, .weight = false, .in_place = true, .rows = 1, .wide = true});
    add(CaseKind::video,
        {.m = 32760, .c = 5120, .kind = kind, .weight = false, .in_place = true, .rows = 1, .codes = true});
    add(CaseKind::video, {.m = 75600, .c = 5120, .kind = kind, .weight = false, .in_place = true, .rows = 1});
    add(CaseKind::real, {.m = 3276, .c = 5120, .kind = kind, .bias = bias});
  }
  add_add_norm_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
