// Decodes latents to frames as bytes: the work of the decode stage, for anybody who has latents.
#pragma once

#include "models/wan_vae/wan_vae.h"
#include "ops/match_colors/match_colors.h"
#include "request/request.h"

namespace tachy {

class Session;

// Says which of a clip's frames are handed out: all, or, in a window of a longer video, those that are new.
struct FramesOut {
  int64_t skip = 0;             // how many frames at the beginning are not handed out
  int64_t first = 0;            // the number of the next frame in the video
  int64_t total = 0;            // how many frames the video has; 0: as many as the clip
  double color_correction = 0;  // how far the frames' colours are matched to those of `picture`
  // The colours of a picture. Frames are matched before they are kept or handed out.
  ops::LabStatistics picture = {};
  Tensor tail = {};  // [n, H, W, 3] f32: keeps the clip's last frames; undefined: they are not kept
};

// `latents` is [z, T, h, w] f32 on the stream's device. Calls callbacks->frame for each frame in order and
// reports to callbacks->progress ("decode", in frames); `callbacks` may be null. May be called in a measure
// run. The second one decodes with the session's decoder and on its ranks (by_rows.h).
void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream, const FramesOut& out = {});
void decode_frames(Session& session, const Tensor& latents, const FramesOut& out);

}  // namespace tachy
