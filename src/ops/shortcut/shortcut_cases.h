// Cases of the shortcuts: the four of Wan2.2's VAE, and first chunks, whose frames are no multiple of ft.
#pragma once

#include "ops/op_case.h"
#include "ops/shortcut/shortcut_impl.h"

namespace tachy::ops {

struct ShortcutCase {
  CaseKind kind;
  int64_t frames, h, w, ci, co;  // size of x
  int64_t ft, fs;
  bool duplicated;
  int64_t dropped = 0;
};

inline std::vector<OpCase> shortcut_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const ShortcutCase& c) {
    const int64_t t = c.duplicated ? c.frames * c.ft - c.dropped : (c.frames + c.ft - 1) / c.ft;
    const int64_t h = c.duplicated ? c.h * c.fs : c.h / c.fs, w = c.duplicated ? c.w * c.fs : c.w / c.fs;
    const double values = 1.0 * c.frames * c.h * c.w * c.ci + 2.0 * t * h * w * c.co;
    cases.push_back({"shortcut",
                     fmt::format("{}-{}x{}x{}x{}to{}-{}x{}{}", c.duplicated ? "duplicated" : "averaged",
                                 c.frames, c.h, c.w, c.ci, c.co, c.ft, c.fs, c.dropped ? "-first" : ""),
                     c.kind, 4 * values, values, [=](CaseMemory& memory) {
                       ShortcutArgs args{.x = memory.normal({c.frames, c.h, c.w, c.ci}),
                                         .time_factor = c.ft,
                                         .space_factor = c.fs,
                                         .duplicated = c.duplicated,
                                         .dropped = c.dropped};
                       args.y = memory.inout(memory.normal({t, h, w, c.co}));
                       return bind_op("shortcut", shortcut, shortcut_table(), shortcut_working, args,
                                      {args.y});
                     }});
  };
  using enum CaseKind;
  add({tiny, 1, 4, 6, 8, 4, 1, 2, false});
  add({tiny, 1, 4, 6, 8, 8, 2, 2, false});
  add({tiny, 2, 3, 5, 8, 4, 2, 2, true});
  add({tiny, 1, 3, 5, 8, 8, 2, 2, true, 1});
  add({odd, 4, 6, 10, 15, 5, 2, 2, false});
  add({odd, 3, 4, 6, 5, 20, 2, 2, false});
  add({odd, 2, 5, 7, 12, 12, 1, 1, false});
  add({odd, 2, 3, 5, 20, 5, 1, 2, true});
  add({odd, 1, 3, 5, 7, 7, 2, 2, true, 1});
  add({real, 4, 352, 640, 160, 160, 1, 2, false});  // Wan2.2's VAE at 704x1280
  add({real, 4, 176, 320, 160, 320, 2, 2, false});
  add({real, 2, 88, 160, 320, 640, 2, 2, false});
  add({real, 1, 44, 80, 1024, 1024, 2, 2, true});
  add({real, 4, 176, 320, 1024, 512, 1, 2, true});
  return on_gpu(cases);
}

}  // namespace tachy::ops
