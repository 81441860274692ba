// Latents to frames as bytes: what the decode stage does, for others that have latents.
#pragma once

#include "models/wan_vae/wan_vae.h"
#include "pipelines/request.h"

namespace tachy {

// latents [z, T, h, w] f32 where the stream computes. Calls callbacks->frame for each frame in order and tells
// callbacks->progress ("decode", in frames); callbacks may be null. It may be measured.
void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream);

}  // namespace tachy
