// Cases of rmsnorm.
#pragma once

#include "ops/op_case.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {

inline void add_rmsnorm_backward_cases(std::vector<OpCase>& cases) {
  // `rows` is the number of rows of scale (0: no modulation).
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, bool weight, int64_t pad, int64_t rows = 0) {
    cases.push_back({"rmsnorm_backward",
                     fmt::format("{}x{}{}{}{}", m, c, weight ? "" : "-plain", pad ? "-strided" : "",
                                 rows ? fmt::format("-rows{}", rows) : ""),
                     kind, 12.0 * m * c, 10.0 * m * c, [=](CaseMemory& memory) {
                       RmsNormBackwardArgs args{.x = memory.normal({m, c + pad}).slice(1, 0, c)};
                       args.dy = memory.normal({m, c + pad}).slice(1, pad, c + pad);
                       if (weight) args.weight = memory.param({c});
                       args.dx = memory.output({m, c + pad}).slice(1, 0, c);
                       std::vector<Tensor> outputs{args.dx};
                       if (weight) outputs.push_back(args.dweight = memory.output(DType::f32, {c}));
                       if (rows) {
                         args.scale = memory.param({rows, c});
                         outputs.push_back(args.dscale = memory.output(DType::f32, {rows, c}));
                         outputs.push_back(args.dshift = memory.output(DType::f32, {rows, c}));
                       }
                       if (rows > 1) args.row = memory.rows(m, rows);
                       return bind_op("rmsnorm_backward", rmsnorm_backward, rmsnorm_backward_table(),
                                      rmsnorm_backward_working, args, outputs);
                     }});
  };
  add(CaseKind::tiny, 3, 16, true, 0);
  add(CaseKind::odd, 37, 333, true, 3);
  add(CaseKind::odd, 5, 77, false, 0);
  for (const int64_t c : {96, 384, 1536, 5120}) add(CaseKind::tiny, 67, c, true, c == 1536 ? 8 : 0);
  add(CaseKind::tiny, 5, 13824, true, 0);  // rows are longer than the registers hold
  add(CaseKind::tiny, 3000, 192, true, 0);
  add(CaseKind::tiny, 67, 1536, true, 0, 3);
  add(CaseKind::odd, 37, 333, false, 1, 2);
  add(CaseKind::odd, 5, 77, true, 0, 1);
  add(CaseKind::video, 32760, 1536, true, 0);
  add(CaseKind::video, 32760, 5120, true, 0);
}

inline std::vector<OpCase> rmsnorm_cases() {
  std::vector<OpCase> cases;
  // wide: x is f32 on the GPU, too; rows: the number of rows of scale and shift (0: none); own: the weight
  // has the activations' dtype; twice: values are rounded before the weight as well.
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, bool weight, int64_t pad, bool wide = false,
                       int64_t rows = 0, bool own = false, bool twice = false) {
    const auto name = fmt::format("{}x{}{}{}{}{}{}{}", m, c, weight ? "" : "-plain", pad ? "-strided" : "",
                                  wide ? "-wide" : "", rows ? fmt::format("-rows{}", rows) : "",
                                  own ? "-own" : "", twice ? "-twice" : "");
    cases.push_back({"rmsnorm", name, kind, 8.0 * m * c, 4.0 * m * c, [=](CaseMemory& memory) {
                       const Tensor x = wide ? memory.param({m, c + pad}) : memory.normal({m, c + pad});
                       RmsNormArgs args{.x = x.slice(1, 0, c)};
                       if (weight) args.weight = own ? memory.normal({c}) : memory.param({c});
                       args.round_twice = twice;
                       if (rows) {
                         args.scale = memory.param({rows, c + pad}).slice(1, pad, c + pad);
                         args.shift = memory.param({rows, c + pad}).slice(1, pad, c + pad);
                       }
                       if (rows > 1) args.row = memory.rows(m, rows);
                       args.y = memory.output({m, c + pad}).slice(1, pad, c + pad);
                       return bind_op("rmsnorm", rmsnorm, rmsnorm_table(), rmsnorm_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 1, 1, true, 0);
  add(CaseKind::tiny, 3, 64, true, 0);
  add(CaseKind::odd, 5, 77, true, 3);
  add(CaseKind::odd, 37, 1001, false, 1);
  add(CaseKind::odd, 9, 160, true, 0, true);
  add(CaseKind::odd, 7, 5000, true, 0);  // rows are longer than the registers hold, unaligned
  add(CaseKind::tiny, 3, 96, true, 0);   // every way of sharing a row among threads
  add(CaseKind::tiny, 67, 192, true, 0);
  for (const int64_t c : {384, 640, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 13824, 40960})
    add(CaseKind::tiny, 5, c, true, 0);
  add(CaseKind::tiny, 5, 1536, true, 8, true);
  add(CaseKind::tiny, 9, 160, true, 8, false, 3);
  add(CaseKind::tiny, 7, 2048, false, 0, true, 1);
  add(CaseKind::odd, 19, 1001, true, 3, false, 4);
  for (const bool twice : {false, true}) {
    for (const int64_t c : {96, 1536, 5120, 13824, 40960})
      add(CaseKind::tiny, 5, c, true, 0, false, 0, true, twice);
    add(CaseKind::odd, 7, 333, true, 3, false, 0, true, twice);
    add(CaseKind::tiny, 3, 2048, true, 8, false, 0, false, twice);
    add(CaseKind::real, 4096, 2048, true, 0, false, 0, true, twice);
  }
  add(CaseKind::tiny, 9, 1536, true, 0, false, 2, true);
  for (const int64_t rows : {1, 2, 4}) add(CaseKind::real, rows * 1024, 2048, true, 0);
  for (const int64_t rows : {2, 4}) add(CaseKind::real, rows * 4096, 3072, true, 0);
  add(CaseKind::video, 32760, 1536, true, 0);
  add(CaseKind::video, 32760, 5120, true, 0);
  add(CaseKind::video, 75600, 5120, true, 0);
  add(CaseKind::video, 32760, 1536, true, 0, false, 1);
  add(CaseKind::real, 3276, 5120, true, 0);  // a tenth of 480p, 14B
  add_rmsnorm_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
