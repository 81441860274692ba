#include "pipelines/denoise_blocks.h"

#include <algorithm>
#include <utility>

#include "ops/elementwise/elementwise.h"
#include "pipelines/block_frames.h"
#include "pipelines/rollout.h"

namespace tachy {

std::unique_ptr<CausalDenoiser> make_causal_denoiser(const Job& job, Session& session,
                                                     const Sampler& sampler) {
  const VideoRequest& r = job.request.request;
  const Tensor& x = job.shared.latents;
  const int64_t frames = x.dim(1),
                window = r.block_window > 0 ? std::min<int64_t>(r.block_window, frames) : frames;
  CausalInput in{.network = session.transformer(0).model.get(),
                 .weights = session.model().transformer_of(0).get(),
                 .timesteps = sampler.schedule().timesteps,
                 .text = job.shared.text,
                 .text_rows = r.max_text_tokens,
                 .window = {.frames = window},
                 .z = x.dim(0),
                 .height = x.dim(2),
                 .width = x.dim(3),
                 .block_lengths = block_lengths(frames, r.block, r.block),
                 .shelf = session.denoiser_shelf(0),
                 .graphs = session.graph(0) != nullptr};
  if (r.sinusoid) in.sinusoid = parse_sinusoid(*r.sinusoid);
  return std::make_unique<CausalDenoiser>(in, session.stream());
}

uint64_t denoise_blocks(const Job& job, Session& session, const Sampler& sampler, CausalDenoiser& denoiser) {
  require(!job.resume, "`resume`: a video that is made block by block (`block`) cannot be resumed");
  const VideoRequest& r = job.request.request;
  const Tensor& x = job.shared.latents;
  Stream& stream = session.stream();
  const VideoCallbacks* callbacks = session.callbacks();
  std::optional<BlockFrames> frames;
  frames.emplace(BlockFrames::Input{.vae = session.vae_decoder().model.get(),
                                    .height = x.dim(2),
                                    .width = x.dim(3),
                                    .frames = x.dim(1),
                                    .steps = sampler.steps(),
                                    .graphs = session.graph(0) != nullptr},
                 stream);
  const auto finished = [&](const Tensor& block, int64_t first) {
    ops::copy({.x = block, .y = x.slice(1, first, first + block.dim(1))}, stream);
    const Adapters* adapters = std::exchange(stream.adapters, nullptr);  // the transformer's
    frames->decode(block, callbacks ? callbacks->frame : nullptr);
    stream.adapters = adapters;
    frames->begin_block();  // the next one
    return true;
  };
  const uint64_t held = rollout({.sampler = &sampler,
                                 .blocks = block_lengths(x.dim(1), r.block, r.block),
                                 .latent_shape = {x.dim(0), x.dim(2), x.dim(3)},
                                 .start = x,
                                 .noise = job.noise,
                                 .callbacks = session.callbacks(),
                                 .preview_factors = &session.model().preview_factors,
                                 .marks = frames->marks(),
                                 .finished = finished},
                                denoiser, stream);
  const uint64_t all = session.part_bytes() + held + frames->bytes();
  frames.reset();  // before the decoder
  session.give_back(Part::vae_decoder);
  return all;
}

}  // namespace tachy
