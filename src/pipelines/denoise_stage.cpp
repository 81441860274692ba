#include "pipelines/denoise_stage.h"

#include <algorithm>

#include "pipelines/experts_denoiser.h"
#include "pipelines/first_frame_denoiser.h"

namespace tachy {
namespace {

Guidance guidance_of(double scale) {
  const auto g = static_cast<float>(scale);
  return scale > 1 ? Guidance{g, 1 - g} : Guidance{1};
}

std::vector<Guidance> guidance_of_parts(const VideoRequest& r) {
  std::vector<Guidance> out{guidance_of(*r.guidance)};
  if (r.guidance_2) out.push_back(guidance_of(*r.guidance_2));
  return out;
}

// The denoiser of one transformer, for its part of the steps.
std::unique_ptr<Denoiser> make_denoiser(int part, const std::vector<int>& part_of_step,
                                        const DenoiseInput& in, Stream& stream) {
  const ProfileRange hoisted(stream.hooks.profiler, "hoisted", ProfileKind::group);
  const VideoRequest& r = in.request->request;
  const auto begin = std::find(part_of_step.begin(), part_of_step.end(), part);
  const std::span<const double> timesteps = in.sampler->schedule().timesteps;
  ClipInput clip{.network = in.transformers->parts.at(static_cast<size_t>(part)).model.get(),
                 .weights = in.model->transformer_of(part).get(),
                 .first_step = static_cast<int>(begin - part_of_step.begin()),
                 .texts = {in.text},
                 .text_rows = r.max_text_tokens,
                 .image_embeds = in.image_embeds,
                 .latent_shape = {in.latents.shape().begin(), in.latents.shape().end()},
                 .graphs = in.graphs};
  clip.timesteps = timesteps.subspan(static_cast<size_t>(clip.first_step),
                                     static_cast<size_t>(std::count(begin, part_of_step.end(), part)));
  if (guidance_of_parts(r).at(static_cast<size_t>(part)).size() == 2) clip.texts.push_back(in.negative);
  if (r.sinusoid) clip.sinusoid = parse_sinusoid(*r.sinusoid);
  if (in.condition.defined() && in.model->image_input == ImageInput::first_frame)
    return std::make_unique<FirstFrameDenoiser>(clip, in.condition, stream);
  clip.channels = in.condition;
  return std::make_unique<ClipDenoiser>(clip, stream);
}

}  // namespace

std::vector<int> part_of_steps(const ModelBundle& model, const Schedule& schedule) {
  std::vector<int> out(schedule.timesteps.size(), 0);
  for (int i = 0; i < schedule.steps() && model.experts() == 2; ++i)
    out[static_cast<size_t>(i)] = schedule.high_noise(i, model.boundary) ? 0 : 1;
  return out;
}

uint64_t denoise(const DenoiseInput& in, Stream& stream) {
  const std::vector<int> parts = part_of_steps(*in.model, in.sampler->schedule());
  const int first = in.resume ? static_cast<int>(in.resume->step) : 0;
  uint64_t most = 0;
  const auto make = [&](int part) {
    in.load(part);
    std::unique_ptr<Denoiser> out = make_denoiser(part, parts, in, stream);
    most = std::max(most, in.transformers->bytes() + out->bytes());
    return out;
  };
  std::unique_ptr<Denoiser> denoiser;
  if (in.model->experts() == 2)
    denoiser = std::make_unique<ExpertsDenoiser>(parts, first, make, in.give_back);
  else
    denoiser = make(0);
  DenoiseLoop loop({.sampler = in.sampler,
                    .guidance = guidance_of_parts(in.request->request),
                    .step_cache = in.request->request.step_cache.value_or(0),
                    .latents = in.latents,
                    .noise = in.noise,
                    .callbacks = in.callbacks,
                    .preview_factors = &in.model->preview_factors,
                    .resume = in.resume,
                    .reused = in.reused},
                   *denoiser, stream);
  loop.run();
  denoiser.reset();
  in.give_back(parts.back());
  return most + loop.bytes();
}

}  // namespace tachy
