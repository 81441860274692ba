// The video stage's results: what a clip takes of the videos and reference pictures that are given.
//
//   start    [z, T, h, w]           VAE(video): the denoise stage adds noise to it
//   control  [2z + s², n + T, h, w] for models with control blocks, s the VAE's spatial stride, n references:
//            z channels of VAE(video·(1 - m)), z of VAE(video·m), s² of the mask
//
// m is 1 where the mask is above one half. A latent frame's mask is that of one pixel frame (the nearest-exact one),
// each s·s pixels of which are its channels. References lie before the clip, the last one first: z channels of
// VAE(picture), and zeros. Pixels that nothing gives are 0, which is gray, and belong to m = 1; those of a first or
// last picture belong to m = 0.
#pragma once

#include "catalog/model_bundle.h"
#include "models/wan_vae/wan_vae.h"
#include "resolve/resolved.h"
#include "runtime/rank_team.h"

namespace tachy {

// Both are empty if the request has nothing of the kind.
std::vector<int64_t> start_dims(const ResolvedRequest& request);
std::vector<int64_t> control_dims(const ModelBundle& model, const ResolvedRequest& request);

// Returns which places of `start` are made anew, 1 or 0 for [T, h, w]: those where the mask is above one half at any of
// a place's pixels, in any of its frames. Empty if the request has no such mask.
std::vector<float> start_mask(const VaeConfig& vae, const Resolved& request);
// Says whether it has one.
bool keeps_part(const ResolvedRequest& request);

// Adds to `start` as much of the noise in `latents` as a step with this sigma expects. The sum is then in `latents`.
void add_noise(const Tensor& start, float sigma, const Tensor& latents, Stream& stream);

// The longest run of frames in which nothing is given for the places with m = 1 (`anew`), or for those with m = 0, as
// far as the request tells without its pixels. They are gray, so the encoder leaves most of their work out: without a
// mask, of two videos one is gray.
EqualFrames gray_frames(const ResolvedRequest& request, bool anew);

struct EncodeRun {
  runtime::RankTeam* ranks = nullptr;  // divide the rows among them
  int64_t latents = 1;                 // latent frames at a time
};
// Each returns the bytes of the VAE's states (held during the call).
uint64_t encode_start(const VaeEncoder& vae, const Resolved& request, const Tensor& start, Stream& stream,
                      const EncodeRun& run);
uint64_t encode_control(const VaeEncoder& vae, const Resolved& request, const Tensor& control, Stream& stream,
                        const EncodeRun& run);

}  // namespace tachy
