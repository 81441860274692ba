// Cases of channel_norm.
#pragma once

#include <cstring>

#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline void add_channel_norm_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t p, int64_t c, bool silu) {
    cases.push_back(
        {"channel_norm_backward", fmt::format("{}x{}{}", p, c, silu ? "-silu" : ""), kind, 12.0 * p * c,
         40.0 * p * c, [=](CaseMemory& memory) {
           ChannelNormBackwardArgs args{.x = memory.normal({p, c}), .gamma = memory.param({c}), .silu = silu};
           // A black position, whose huge gradient would hide the others' errors, so it is
           // added only to small cases.
           if (p <= 5) std::memset(memory.host(args.x).data, 0, static_cast<size_t>(c) * 4);
           args.dy = memory.normal({p, c});
           args.dx = memory.output({p, c}), args.dgamma = memory.output(DType::f32, {c});
           return bind_op("channel_norm_backward", channel_norm_backward, channel_norm_backward_table(),
                          channel_norm_backward_working, args, {args.dx, args.dgamma});
         }});
  };
  add(CaseKind::tiny, 3, 16, true);
  add(CaseKind::odd, 37, 333, true);
  add(CaseKind::odd, 5, 77, false);
  for (const int64_t c : {96, 384}) add(CaseKind::tiny, 133, c, true);
  add(CaseKind::video, 4 * 480 * 832, 96, true);
}

inline std::vector<OpCase> channel_norm_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t p, int64_t c, bool silu, bool zeros, DType to = DType::f32) {
    const bool codes = is_code(to);
    const auto name = fmt::format("{}x{}{}{}{}", p, c, silu ? "-silu" : "", zeros ? "-zeros" : "",
                                  to == DType::i8 ? "-i8"
                                  : codes         ? "-codes"
                                                  : "");
    const double bytes = codes ? 5.0 : 8.0;
    cases.push_back(
        {"channel_norm", name, kind, bytes * p * c, 24.0 * p * c, [=](CaseMemory& memory) {
           ChannelNormArgs args{.x = memory.normal({p, c}), .gamma = memory.param({c}), .silu = silu};
           args.y = codes ? memory.output(to, {p, c}) : memory.output({p, c});
           args.y_scale = to == DType::i8 ? 0.03f : codes ? 0.01f : 1;  // so that the largest saturate
           if (zeros)
             std::memset(memory.host(args.x).data, 0,
                         static_cast<size_t>(c) * 4);  // a black position
           return bind_op("channel_norm", channel_norm, channel_norm_table(), channel_norm_working, args,
                          {args.y});
         }});
  };
  constexpr DType e4m3 = DType::f8_e4m3, i8 = DType::i8;
  add(CaseKind::tiny, 4, 16, true, true);
  add(CaseKind::tiny, 1, 3, false, false);
  add(CaseKind::odd, 101, 77, true, true);
  add(CaseKind::odd, 7, 384, false, false);
  for (const int64_t c : {96, 160, 192, 256, 384, 512, 640, 1024})
    add(CaseKind::tiny, 133, c, c != 160, true);
  add(CaseKind::tiny, 4, 16, true, true, e4m3), add(CaseKind::tiny, 4, 16, true, true, i8);
  add(CaseKind::odd, 101, 77, true, true, e4m3), add(CaseKind::odd, 101, 77, true, true, i8);
  add(CaseKind::odd, 7, 384, false, false, e4m3);
  for (const int64_t c : {32, 96, 192, 384, 512, 1024, 2048})
    for (const DType to : {e4m3, i8}) add(CaseKind::tiny, 133, c, c != 192, true, to);
  for (const DType to : {e4m3, i8}) add(CaseKind::video, 4 * 480 * 832, 96, true, false, to);
  add(CaseKind::video, 4 * 240 * 416, 192, true, false, e4m3);
  add(CaseKind::video, 4 * 480 * 832, 96, true, false);
  add(CaseKind::video, 4 * 240 * 416, 192, true, false);
  add(CaseKind::real, 4 * 120 * 208, 384, true, false);
  add(CaseKind::video, 4 * 720 * 1280, 96, true, false);
  add(CaseKind::real, 4 * 240 * 416, 96, true, false);
  add_channel_norm_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
