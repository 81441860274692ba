// A Wan transformer that makes a video block by block (Self-Forcing, CausVid, Matrix-Game 2): the tokens of a block look at
// themselves and at the keys and values of frames before it. Everything else of a forward pass is as ever.
//
//   WanCausal causal = dit.allocate_causal({.frames = 6}, 3, rows, columns, store);
//   for each block:  dit.begin_block(causal, grid, given, stream);             positions, sinks, what branches are given
//                    forward with WanInput::causal at each step's timestep     each writes the block's keys anew
//                    forward with WanInput::fill_only at timestep 0            of the finished latents: what later blocks see
#pragma once

#include "models/wan/clip_mask.h"
#include "models/wan/extras.h"
#include "runtime/kv_ring.h"

namespace tachy {

// Which frames a block looks at: the last ones, its own among them, and before these the video's first ones.
struct WanWindow {
  int64_t frames = 0;  // in all
  int64_t sinks = 0;   // the first ones among them
  bool sinks_follow =
      false;  // sinks are as near as if the frames between had never been; otherwise they fall behind
};

struct WanCausal {
  WanWindow window;
  int64_t most = 0;               // latent frames of a block, at most
  int64_t first = 0, frames = 0;  // of the block at hand; 0 frames: none has begun
  WanMask mask;                   // of a block that is a whole clip, set before it begins
  std::vector<WanPart> parts;     // of the block at hand
  runtime::KvRing ring;           // [layers, window, tokens a frame, dim]
  WanExtras memory;               // what branches remember, and what they are given of the block at hand
  Tensor sink_cos, sink_sin;      // [sinks·tokens a frame, head_dim/2] f32
  // An earlier pass of the block at hand has left in `memory` what follows from what the block was given alone. Whoever runs
  // the passes says so.
  bool known = false;
  // The host makes these of a block's position and of what branches are given of it, in one piece that is uploaded at once:
  // angles, of which tables are made where the model computes, and tensors of `memory`.
  Tensor constants;
  Tensor time_cos, time_sin;          // [most, pairs of the time axis]: the same for all tokens of a frame
  Tensor sink_row_cos, sink_row_sin;  // [1, head_dim/2]: the same for all tokens of the sinks

  int64_t end() const { return first + frames; }
};

}  // namespace tachy
