// Wan2.2's shortcuts around whole blocks of the VAE, which have no weights and add to y. A factor of ft in
// time and fs in space turns a position's neighbourhood into F = ft·fs² channels (index c·F + dt·fs² + dy·fs
// + dx):
//   averaged:   y[t, i, j, o] += mean of g = Ci·F/Co consecutive expanded channels of x; zeros in front where
//               x's frames are no multiple of ft
//   duplicated: y[t, i, j, o] += x[t' / ft, i / fs, j / fs, e div (Co·F/Ci)], t' = t + dropped, e = o's
//               expanded index there: x grows, `dropped` frames in front are left out
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ShortcutArgs {
  Tensor x;  // [T, H, W, Ci] f32 (on a GPU f16 or bf16, too), contiguous
  int64_t time_factor = 1, space_factor = 1;
  bool duplicated = false;
  int64_t dropped = 0;  // only for duplicated
  Tensor y;             // read and written, as x; its frames are contiguous, and may lie apart
                        //   averaged:   [⌈T / ft⌉, H / fs, W / fs, Co]
                        //   duplicated: [T·ft − dropped, H·fs, W·fs, Co]
};

void shortcut(const ShortcutArgs& args, Stream& stream);

}  // namespace tachy::ops
