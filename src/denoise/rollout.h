// Makes a video block by block. Each block gets noise and the sampler's few steps with fresh noise between
// them; its finished latents go to the caller, and a pass at timestep 0 makes later blocks see them. Latents
// that are given are only remembered.
#pragma once

#include <functional>

#include "denoise/block_denoiser.h"
#include "denoise/denoise_loop.h"
#include "denoise/noise_source.h"

namespace tachy {

struct RolloutInput {
  const Sampler* sampler = nullptr;
  std::vector<int64_t> blocks;        // latent frames of each block, beginning with the given blocks
  std::vector<int64_t> latent_shape;  // z, h, w
  Tensor given;  // [z, n, h, w] f32, on the stream's device: the first blocks; undefined: none
  Tensor start;  // [z, frames, h, w] f32: the noise of all other blocks; undefined: drawn for each block
  NoiseSource* noise = nullptr;               // that of the run; not needed to measure
  const VideoCallbacks* callbacks = nullptr;  // or null; reporting a run's state is up to the caller
  const std::vector<float>* preview_factors = nullptr;  // for the previews of each block
  // Values that are not finite are noted here, and `finished` checks this before it shows a block; null: the
  // rollout checks once a block.
  const FiniteMarks* marks = nullptr;
  // Returns the keys and mouse moves so far. It is called as late as possible, before the block that ends
  // with this latent frame.
  std::function<WanScript(int64_t end)> script;
  std::function<void(const Tensor& velocity)> predicted;  // may be empty; called after each pass of a step
  // Takes the finished latents [z, n, h, w] of the block that begins with latent frame `first`. Returns false
  // if no more blocks are wanted. It is called in a measure run, too.
  std::function<bool(const Tensor& latents, int64_t first)> finished;
};

// Divides `frames` latent frames into blocks of `block`; the first one may have another length. Throws if
// they do not fit.
std::vector<int64_t> block_lengths(int64_t frames, int64_t block, int64_t first_block);

// Returns the bytes of the Buffers that it held, without the denoiser's.
uint64_t rollout(const RolloutInput& in, BlockDenoiser& denoiser, Stream& stream);

}  // namespace tachy
