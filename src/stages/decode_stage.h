// Latents to frames as bytes: what the decode stage does, for others that have latents.
#pragma once

#include "models/wan_vae/wan_vae.h"
#include "ops/match_colors/match_colors.h"
#include "request/request.h"

namespace tachy {

// Which of a clip's frames are handed out: all, or where it is a window of a longer video, those that are new in it.
struct FramesOut {
  int64_t skip = 0;                 // so many first ones are not,
  int64_t first = 0;                // the next one is this of the video,
  int64_t total = 0;                // which has so many; 0: as many as the clip
  double color_correction = 0;      // how far the frames' colours are brought to
  ops::LabStatistics picture = {};  // this picture's, before they are kept or handed out
  Tensor tail = {};  // [n, H, W, 3] f32: where the clip's last frames are kept; undefined: nowhere
};

// latents [z, T, h, w] f32 where the stream computes. Calls callbacks->frame for each frame in order and tells
// callbacks->progress ("decode", in frames); callbacks may be null. It may be measured.
void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream, const FramesOut& out = {});

}  // namespace tachy
