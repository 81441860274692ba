// Cases of reparameterize.
#pragma once

#include "ops/op_case.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {

inline void add_reparameterize_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t p, bool factor) {
    cases.push_back({"reparameterize_backward", fmt::format("{}x{}{}", m, p, factor ? "-factor" : ""), kind,
                     20.0 * m * p, 20.0 * m * p, [=](CaseMemory& memory) {
                       ReparameterizeBackwardArgs args{.logvar = memory.normal({m, p}, 15),
                                                       .noise = memory.normal({m, p})};
                       if (factor) args.factor = memory.param({m});
                       // σ is up to e^10, and f16 must hold the results.
                       args.dz = memory.normal({m, p}, 0.1f);
                       args.dmean = memory.output({m, p}), args.dlogvar = memory.output({m, p});
                       return bind_op("reparameterize_backward", reparameterize_backward,
                                      reparameterize_backward_table(), reparameterize_backward_working, args,
                                      {args.dmean, args.dlogvar});
                     }});
  };
  add(CaseKind::tiny, 3, 16, true);
  add(CaseKind::odd, 37, 333, false);
  add(CaseKind::real, 16, 21 * 60 * 104, true);
}

inline std::vector<OpCase> reparameterize_cases() {
  std::vector<OpCase> cases;
  // `scale` is that of the log variances, so that some are clamped at both ends.
  const auto add = [&](CaseKind kind, int64_t m, int64_t p, bool normalised, float scale, bool last) {
    const auto name =
        fmt::format("{}x{}{}-scale{}{}", m, p, normalised ? "-normalised" : "", scale, last ? "-last" : "");
    const double values = 1.0 * m * p;
    cases.push_back({"reparameterize", name, kind, 16 * values, 20 * values, [=](CaseMemory& memory) {
                       ReparameterizeArgs args;
                       if (last) {  // channels last: [positions, mean and logvar]
                         const Tensor moments = memory.normal({m, 2 * p}, scale);
                         args.mean = moments.slice(1, 0, p), args.logvar = moments.slice(1, p, 2 * p);
                       } else {
                         args.mean = memory.normal({m, p}), args.logvar = memory.normal({m, p}, scale);
                       }
                       args.noise = memory.param({m, p});
                       if (normalised) args.center = memory.param({m}), args.factor = memory.param({m});
                       args.z = memory.output(DType::f32, {m, p});
                       return bind_op("reparameterize", reparameterize, reparameterize_table(),
                                      reparameterize_working, args, {args.z});
                     }});
  };
  add(CaseKind::tiny, 2, 5, true, 1, false);
  add(CaseKind::tiny, 1, 1, false, 1, true);
  add(CaseKind::odd, 3, 20001, true, 20, false);
  add(CaseKind::odd, 137, 48, false, 20, true);
  add(CaseKind::odd, 9, 77, false, 3, false);
  add(CaseKind::real, 16, 21 * 60 * 104, true, 3, false);  // 81 frames of 480p
  add_reparameterize_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
