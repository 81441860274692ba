// Cases of channel_norm.
#pragma once

#include <cstring>

#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> channel_norm_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t p, int64_t c, bool silu, bool zeros) {
    const auto name = fmt::format("{}x{}{}{}", p, c, silu ? "-silu" : "", zeros ? "-zeros" : "");
    cases.push_back({"channel_norm", name, kind, 8.0 * p * c, 24.0 * p * c, [=](CaseMemory& memory) {
                       ChannelNormArgs args{.x = memory.normal({p, c}),
                                            .gamma = memory.normal({c}),
                                            .silu = silu,
                                            .y = memory.output({p, c})};
                       if (zeros)
                         std::memset(args.x.data, 0, static_cast<size_t>(c) * 4);  // a black position
                       return bind_op("channel_norm", channel_norm, channel_norm_table(),
                                      channel_norm_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 4, 16, true, true);
  add(CaseKind::tiny, 1, 3, false, false);
  add(CaseKind::odd, 101, 77, true, true);
  add(CaseKind::odd, 7, 384, false, false);
  add(CaseKind::real, 4 * 240 * 416, 96, true, false);
  return cases;
}

}  // namespace tachy::ops
