// A video block by block: for each block noise, the sampler's few steps with fresh noise between them, the finished latents
// to the caller, and a pass at timestep 0 by which later blocks see them. Latents that are given are only remembered.
#pragma once

#include <functional>

#include "denoise/causal_denoiser.h"
#include "denoise/denoise_loop.h"
#include "denoise/noise_source.h"

namespace tachy {

struct RolloutInput {
  const Sampler* sampler = nullptr;
  std::vector<int64_t> blocks;        // latent frames of each, the given ones' first
  std::vector<int64_t> latent_shape;  // z, h, w
  Tensor given;  // [z, n, h, w] f32, where it computes: the first blocks; undefined without
  Tensor start;  // [z, frames, h, w] f32: the noise of all other blocks; undefined: drawn for each block
  NoiseSource* noise = nullptr;                         // of the run; not needed to measure
  const VideoCallbacks* callbacks = nullptr;            // or null; a run's state is told by who calls this
  const std::vector<float>* preview_factors = nullptr;  // for previews, of a block each
  // Noted there is what is not finite, and `finished` looks before it shows a block; null: the rollout looks once a block.
  const FiniteMarks* marks = nullptr;
  // What was pressed so far, asked for as late as possible: before the block that ends with this latent frame.
  std::function<WanScript(int64_t end)> script;
  std::function<void(const Tensor& velocity)> predicted;  // perhaps: after each pass of a step
  // The finished latents [z, n, h, w] of the block that begins with latent frame `first`. False: no more blocks. Called
  // in a measure run, too.
  std::function<bool(const Tensor& latents, int64_t first)> finished;
};

// Blocks of `block` latent frames for so many in all, the first one perhaps of another length. Throws where they do not fit.
std::vector<int64_t> block_lengths(int64_t frames, int64_t block, int64_t first_block);

// Returns the bytes of Buffers that it held, besides the denoiser's.
uint64_t rollout(const RolloutInput& in, CausalDenoiser& denoiser, Stream& stream);

}  // namespace tachy
