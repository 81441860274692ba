// A Wan transformer that makes a video block by block (Self-Forcing, CausVid, Matrix-Game 2): the tokens of a block look at
// themselves and at the keys and values of frames before it. Everything else of a forward pass is as ever.
//
//   WanCausal causal = dit.allocate_causal({.frames = 6}, 3, rows, columns, store);
//   for each block:  dit.begin_block(causal, grid, script, stream);            positions, actions, sinks of this block
//                    forward with WanInput::causal at each step's timestep     each writes the block's keys anew
//                    forward with WanInput::fill_only at timestep 0            of the finished latents: what later blocks see
#pragma once

#include "models/wan/branches/actions/action.h"
#include "runtime/kv_ring.h"

namespace tachy {

// Which frames a block looks at: the last ones, its own among them, and before these the video's first ones.
struct WanWindow {
  int64_t frames = 0;  // in all
  int64_t sinks = 0;   // the first ones among them
  bool sinks_follow =
      false;  // sinks are as near as if the frames between had never been; otherwise they fall behind
};

// What was pressed in each pixel frame, on the host: [n, keyboard_dim] and [n, mouse_dim] f32. A block whose latent frames
// end before `end` needs those of 1 + frames_each·(end - 1) pixel frames, and looks at all but the last of them, as far
// back as WanActionConfig::frame_of says: a session of any length need not keep those before.
struct WanScript {
  Tensor keyboard, mouse;
  int64_t first_frame = 0;  // the pixel frame of the first row
};

struct WanCausal {
  WanWindow window;
  int64_t most = 0;                 // latent frames of a block, at most
  int64_t first = 0, frames = 0;    // of the block at hand; 0 frames: none has begun
  WanMask mask;                     // of a block that is a whole clip, set before it begins
  std::vector<WanPart> parts;       // of the block at hand
  runtime::KvRing ring;             // [layers, window, tokens a frame, dim]
  runtime::KvRing mouse, keyboard;  // of the action modules, without sinks
  WanActionInput actions;           // what all modules are given; no tensors without actions
  Tensor sink_cos, sink_sin;        // [sinks·tokens a frame, head_dim/2] f32
  // What the host makes of a block's position and actions, in one piece that is uploaded at once: the tensors of `actions`
  // lie in it, and angles of which tables are made where the model computes.
  Tensor constants;
  Tensor time_cos, time_sin;          // [most, pairs of the time axis]: the same for all tokens of a frame
  Tensor sink_row_cos, sink_row_sin;  // [1, head_dim/2]: the same for all tokens of the sinks

  int64_t end() const { return first + frames; }
};

}  // namespace tachy
