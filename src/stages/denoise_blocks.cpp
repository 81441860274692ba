#include "stages/denoise_blocks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "denoise/block_frames.h"
#include "denoise/rollout.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

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
                 .few_in_eight_bits = r.int8_keys == "all",
                 .graphs = session.graph(0) != nullptr};
  in.sinusoid = job.request.sinusoid;
  return std::make_unique<CausalDenoiser>(in, session.stream());
}

namespace {

// After each block but the last, for a run that goes on from there: it makes keys and frames of what is finished again.
void report_blocks(const Job& job, Session& session, int64_t finished) {
  const VideoCallbacks* callbacks = session.callbacks();
  const Tensor& x = job.shared.latents;
  const int64_t all = x.dim(1) / job.request.request.block;
  if (session.measuring() || finished == all || !callbacks || !callbacks->state) return;
  std::vector<float> values(static_cast<size_t>(x.numel()));
  download(x, values.data(), session.stream());
  callbacks->state({finished, all, values, {}, job.noise->save()});
}

}  // namespace

uint64_t denoise_blocks(const Job& job, Session& session, const Sampler& sampler, CausalDenoiser& denoiser) {
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
  const auto show = [&](const Tensor& block) {
    const Adapters* adapters = std::exchange(stream.adapters, nullptr);  // the transformer's
    frames->decode(block, callbacks ? callbacks->frame : nullptr);
    stream.adapters = adapters;
    frames->begin_block();  // the next one
  };
  const auto finished = [&](const Tensor& block, int64_t first) {
    const int64_t end = first + block.dim(1);
    ops::copy({.x = block, .y = x.slice(1, first, end)}, stream);
    show(block);
    report_blocks(job, session, end / r.block);
    return true;
  };
  const int64_t known = job.resume ? job.resume->step * r.block : 0;
  for (int64_t first = 0; first < known; first += r.block) show(x.slice(1, first, first + r.block));
  const uint64_t held = rollout({.sampler = &sampler,
                                 .blocks = block_lengths(x.dim(1), r.block, r.block),
                                 .latent_shape = {x.dim(0), x.dim(2), x.dim(3)},
                                 .given = known > 0 ? x.slice(1, 0, known) : Tensor(),
                                 .start = x.slice(1, known, x.dim(1)),
                                 .noise = job.noise,
                                 .callbacks = callbacks,
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
