// What a steered world sees of its picture (Matrix-Game 2), besides CLIP's tokens: channels that are appended
// to those of the noise during the whole session.
//
//   channels [s + z, T, h, w] = mask (1 at latent frame 0, else 0), then VAE(picture, grey, grey …), mean, normalised
//
// s = temporal stride; grey is 0. All latent frames that lie further from the picture than the encoder looks
// back (VaeConfig::encoder_past) are equal, so only one of them is encoded, and frames past T repeat the last
// one.
#pragma once

#include "models/wan_vae/wan_vae.h"

namespace tachy {

// Returns T for a session of that many latent frames; 0: without end. For Wan 2.1's VAE: 30, of 117 frames.
int64_t world_condition_frames(const VaeConfig& vae, int64_t latent_frames);

// `picture` is [H, W, 3] in [-1, 1] on the host, and is not read in a measure run. Returns the bytes of the
// VAE's state.
uint64_t encode_world_condition(const VaeEncoder& vae, const std::vector<float>& picture,
                                const Tensor& channels, Stream& stream);

}  // namespace tachy
