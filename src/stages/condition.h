// The image stage's result for a picture (and perhaps a last one): what the transformer sees besides the
// noise.
//
//   first_frame  (2.2 TI2V)  z0 = VAE(picture) [z, 1, h, w]: latent frame 0 at every step, at timestep 0
//   channels     (2.1, 2.2)  [s + z, T, h, w] after the noise's channels: s of mask, then VAE(video), where
//                            video = picture, zeros, perhaps the last picture, in [-1, 1];
//                            s = temporal stride
//
// The mask has one value for each pixel frame, the first one s times: 1 where a picture lies. The mask's
// channels of one latent frame are s of these values. Latents are the posterior's mean, normalised. Pixels
// are 2 (v / 255) - 1 in float32, as diffusers' VideoProcessor makes them.
#pragma once

#include "catalog/model_bundle.h"
#include "models/wan_vae/wan_vae.h"
#include "runtime/rank_team.h"

namespace tachy {

// Returns a picture's pixels as models see them, in [-1, 1].
std::vector<float> pixels_of(const Picture& picture);

// Returns the dims of the condition; empty if the request has no picture.
std::vector<int64_t> condition_dims(const ModelBundle& model, const ResolvedRequest& request);

// `condition` is the caller's storage with those dims. Pictures must have the video's size. With `ranks` their
// rows are divided among these. Returns the bytes of the VAE's states (held during the call).
uint64_t encode_condition(const ModelBundle& model, const VaeEncoder& vae, const ResolvedRequest& request,
                          const Tensor& condition, Stream& stream, runtime::RankTeam* ranks = nullptr);

// Returns the CLIP embeddings that the request gives, as [n, d], in its own host memory; undefined without
// any.
Tensor image_embeds(const ModelBundle& model, const ResolvedRequest& request);

}  // namespace tachy
