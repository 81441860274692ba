// Decodes latents to frames as bytes: the decode stage's work, for others that have latents.
#pragma once

#include "models/wan_vae/wan_vae.h"
#include "ops/match_colors/match_colors.h"
#include "request/request.h"

namespace tachy {

// Says which of a clip's frames are handed out: all, or, in a window of a longer video, those that are new.
struct FramesOut {
  int64_t skip = 0;                 // so many frames at the beginning are not,
  int64_t first = 0;                // the next one has this number in the video,
  int64_t total = 0;                // which has so many frames; 0: as many as the clip
  double color_correction = 0;      // how far the frames' colours are matched
  ops::LabStatistics picture = {};  // to this picture's, before they are kept or handed out
  Tensor tail = {};  // [n, H, W, 3] f32: keeps the clip's last frames; undefined: they are not kept
};

// latents: [z, T, h, w] f32 on the stream's device. Calls callbacks->frame for each frame in order and
// reports to callbacks->progress ("decode", in frames); callbacks may be null. May be called in a measure
// run.
void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream, const FramesOut& out = {});

}  // namespace tachy
