#include "pipelines/denoise_stage.h"

#include "pipelines/first_frame_denoiser.h"

namespace tachy {
namespace {

Guidance guidance_of(double scale) {
  const auto g = static_cast<float>(scale);
  return scale > 1 ? Guidance{g, 1 - g} : Guidance{1};
}

std::unique_ptr<Denoiser> make_denoiser(const WanDit& network, const DenoiseInput& in, Stream& stream) {
  const VideoRequest& r = in.request->request;
  const bool first_frame = in.condition.defined() && in.model->image_input == ImageInput::first_frame;
  ClipInput clip{.network = &network,
                 .weights = in.model->transformer.get(),
                 .timesteps = in.sampler->schedule().timesteps,
                 .texts = {in.text},
                 .text_rows = r.max_text_tokens,
                 .image_embeds = in.image_embeds,
                 .latent_shape = {in.latents.shape().begin(), in.latents.shape().end()},
                 .graphs = in.graphs};
  if (in.negative.defined()) clip.texts.push_back(in.negative);
  if (r.sinusoid) clip.sinusoid = parse_sinusoid(*r.sinusoid);
  if (first_frame) return std::make_unique<FirstFrameDenoiser>(clip, in.condition, stream);
  clip.channels = in.condition;
  return std::make_unique<ClipDenoiser>(clip, stream);
}

}  // namespace

uint64_t denoise(const WanDit& network, const DenoiseInput& in, Stream& stream) {
  ProfileRange hoisted(stream.profiler, "hoisted", ProfileKind::group);
  const std::unique_ptr<Denoiser> denoiser = make_denoiser(network, in, stream);
  DenoiseLoop loop({.sampler = in.sampler,
                    .guidance = guidance_of(*in.request->request.guidance),
                    .step_cache = in.request->request.step_cache.value_or(0),
                    .latents = in.latents,
                    .noise = in.noise,
                    .callbacks = in.callbacks,
                    .preview_factors = &in.model->preview_factors,
                    .resume = in.resume,
                    .reused = in.reused},
                   *denoiser, stream);
  hoisted.done();
  loop.run();
  return denoiser->bytes() + loop.bytes();
}

}  // namespace tachy
