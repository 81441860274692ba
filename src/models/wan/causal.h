// A Wan transformer that makes a video block by block (Self-Forcing, CausVid, Matrix-Game 2): the tokens of a
// block attend to one another and to the keys and values of earlier frames. Otherwise a forward pass is as
// usual.
//
//   WanCausal causal = dit.allocate_causal({.frames = 6}, 3, rows, columns, store);
//   for each block:  dit.begin_block(causal, grid, given, stream);          positions, sinks, branches' inputs
//                    forward with WanInput::causal at each step's timestep  each writes the block's keys anew
//                    forward with WanInput::fill_only at timestep 0         keys of the finished latents
#pragma once

#include "models/wan/clip_mask.h"
#include "models/wan/extras.h"
#include "runtime/kv_ring.h"

namespace tachy {

// The frames that a block looks at: the last ones, including its own, and the first ones of the video.
struct WanWindow {
  int64_t frames = 0;  // number of frames in all
  int64_t sinks = 0;   // how many of them are the first ones of the video
  // If true, sinks stay as near as if the frames between did not exist; otherwise they fall behind.
  bool sinks_follow = false;
};

struct WanCausal {
  WanWindow window;
  int64_t most = 0;               // the most latent frames that a block may have
  int64_t heads = 0;              // heads that the ring remembers
  int64_t first = 0, frames = 0;  // the current block; with 0 frames, none has begun
  WanMask mask;                   // for a block that is a whole clip; set it before the block begins
  std::vector<WanPart> parts;     // parts of the current block
  runtime::KvRing ring;           // [layers, window, tokens per frame, heads·head_dim]
  WanExtras memory;               // what branches remember, and what they are given for the current block
  Tensor sink_cos, sink_sin;      // [sinks·tokens per frame, head_dim/2] f32
  // Says that an earlier pass of the current block has left in `memory` everything that depends only on the
  // block's inputs. The code that runs the passes sets this.
  bool known = false;
  // The values that the host computes from a block's position and from the inputs of branches, in one piece
  // that is uploaded at once: tensors of `memory`, and angles, from which tables are made on the device.
  Tensor constants;
  Tensor time_cos, time_sin;          // [most, pairs of the time axis]: the same for all tokens of a frame
  Tensor sink_row_cos, sink_row_sin;  // [1, head_dim/2]: the same for all tokens of the sinks

  int64_t end() const { return first + frames; }
};

}  // namespace tachy
