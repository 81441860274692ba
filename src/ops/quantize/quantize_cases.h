// Cases of quantize and dequantize, whose results must be exact.
#pragma once

#include <limits>

#include "ops/op_case.h"
#include "ops/quantize/quantize_impl.h"

namespace tachy::ops {

struct QuantizeCase {
  int64_t m, c;
  QuantBlock block;
  int64_t pad = 0;
  bool specials = false;     // a row of zeros, subnormals, huge values, a NaN and an Inf
  bool given_scale = false;  // the scale is small, so that values saturate
};

inline Tensor quantize_case_x(CaseMemory& memory, const QuantizeCase& s) {
  // Values at the limits of float32 stay float32 on a GPU.
  const Tensor whole = s.specials ? memory.param({s.m, s.c + s.pad}) : memory.normal({s.m, s.c + s.pad});
  const Tensor x = whole.slice(1, 0, s.c);
  if (!s.specials) return x;
  const Tensor values = memory.host(x);
  const auto row = [&](int64_t i) { return values.as<float>() + i * values.stride(0); };
  for (int64_t j = 0; j < s.c; ++j) {
    row(0)[j] = 0;
    row(1)[j] *= 1e-41f;
    row(2)[j] *= 1e38f;
  }
  row(3)[s.c / 2] = std::numeric_limits<float>::quiet_NaN();
  row(4)[s.c - 1] = -std::numeric_limits<float>::infinity();
  return x;
}

inline std::vector<OpCase> quantize_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, QuantizeCase s) {
    for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
      const auto name =
          fmt::format("{}x{}-{}-{}x{}{}{}{}", s.m, s.c, dtype_name(dtype), s.block.rows, s.block.columns,
                      s.pad ? "-strided" : "", s.specials ? "-specials" : "", s.given_scale ? "-given" : "");
      const double values = 1.0 * s.m * s.c;
      // Blocks of several rows are read twice.
      const double reads = s.block.rows == 1 || s.given_scale ? 4 : 8;
      cases.push_back({"quantize", name, kind, (reads + 1) * values, 4 * values, [=](CaseMemory& memory) {
                         QuantizeArgs args{
                             .x = quantize_case_x(memory, s), .block = s.block, .given_scale = s.given_scale};
                         const QuantGrid grid(args.x, s.block);
                         if (s.given_scale) {
                           args.scale = memory.param({grid.bands, grid.strips});
                           for (int64_t i = 0; i < args.scale.numel(); ++i)
                             memory.host(args.scale).as<float>()[i] =
                                 0.001f + std::abs(memory.host(args.scale).as<float>()[i]) * 0.01f;
                         } else {
                           args.scale = memory.output(DType::f32, {grid.bands, grid.strips});
                         }
                         args.q = memory.output(dtype, {s.m, s.c + s.pad}).slice(1, s.pad, s.c + s.pad);
                         return bind_op<QuantizeArgs>(
                             "quantize", quantize, quantize_table(), nullptr, args,
                             s.given_scale ? std::vector{args.q} : std::vector{args.q, args.scale});
                       }});
      if (s.specials || s.given_scale) continue;
      cases.push_back({"dequantize", name, kind, 5 * values, values, [=](CaseMemory& memory) {
                         // i8 has any pattern; for f8, normal_as leaves out NaN.
                         DequantizeArgs args{
                             .q = memory.normal_as(dtype, {s.m, s.c + s.pad}).slice(1, 0, s.c),
                             .block = s.block};
                         const QuantGrid grid(args.q, s.block);
                         args.scale = memory.param({grid.bands, grid.strips});
                         args.y = memory.output({s.m, s.c + s.pad}).slice(1, s.pad, s.c + s.pad);
                         return bind_op<DequantizeArgs>("dequantize", dequantize, dequantize_table(), nullptr,
                                                        args, {args.y});
                       }});
    }
  };
  add(CaseKind::tiny, {1, 1, {}});
  add(CaseKind::tiny, {4, 16, {1, 0}});
  add(CaseKind::odd, {7, 77, {0, 0}, 3});
  add(CaseKind::odd, {7, 77, {1, 0}, 1, true});
  add(CaseKind::odd, {37, 1001, {1, 128}});
  add(CaseKind::odd, {300, 130, {128, 128}, 2});
  add(CaseKind::odd, {6, 50, {4, 20}, 0, true});
  add(CaseKind::odd, {500, 100, {0, 32}});  // a block of several tiles
  add(CaseKind::odd, {9, 333, {1, 0}, 0, false, true});
  add(CaseKind::odd, {9, 33, {3, 1}, 0, true, true});
  add(CaseKind::tiny, {5, 5120, {1, 0}});
  add(CaseKind::tiny, {130, 512, {128, 128}});
  add(CaseKind::tiny, {7, 1024, {1, 128}});
  add(CaseKind::video, {32760, 5120, {1, 0}});
  add(CaseKind::video, {32760, 5120, {0, 0}});
  add(CaseKind::real, {3276, 5120, {0, 0}});
  add(CaseKind::real, {3276, 5120, {1, 0}});  // activations of a 14B model
  add(CaseKind::real, {3276, 5120, {1, 128}});
  add(CaseKind::real, {5120, 5120, {128, 128}});  // a weight
  return on_gpu(cases);
}

}  // namespace tachy::ops
