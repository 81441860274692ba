#include "engine/first_latents.h"

#include "engine/courses/course.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// A run begins with the state that it resumes from, with given latents, or with noise. A run has one
// generator, as in PyTorch: it makes the starting noise first, then what stochastic samplers draw. Given
// latents replace the noise, and are scaled as the noise is if a recipe wants that.
std::vector<float> first_latents(const Resolved& resolved, const RunState* resume, const Tensor& latents,
                                 NoiseSource& noise) {
  const VideoRequest& r = resolved.request;
  if (resume) {
    noise.restore(resume->generator);
    return resume->latents;
  }
  const int64_t z = latents.dim(0), clip = latents.dim(1);
  const auto count = static_cast<size_t>(latents.numel());
  std::vector<float> values = r.init_latents;
  if (values.empty()) {
    values.resize(count), course_of(resolved).draw(resolved, noise, values);
    if (resolved.windows.divides(clip) && r.free_noise == "on")
      repeat_noise(resolved.windows, clip, z, values, [&](int64_t n) { return noise.permutation(n); });
  }
  // Noise that is added to a video is scaled there.
  if (const float scale = resolved.sampler.noise_scale(); scale != 1 && !r.video)
    for (float& value : values) value *= scale;
  return values;
}

// Says whether a run begins with what its generator draws, which a GPU can then draw itself.
bool draws_as_it_is(const Resolved& resolved, const RunState* resume) {
  const VideoRequest& r = resolved.request;
  const bool shuffled = resolved.windows.divides(resolved.latent_frames) && r.free_noise == "on";
  const bool drawn_twice = r.speech && r.recipe == "wrapper";  // TalkCourse::draw
  return !resume && r.init_latents.empty() && !drawn_twice && !shuffled &&
         (resolved.sampler.noise_scale() == 1 || r.video);
}

}  // namespace

void make_first_latents(const Resolved& resolved, const RunState* resume, const Shared& shared,
                        NoiseSource& noise, Stream& stream) {
  if (!stream.gpu || !draws_as_it_is(resolved, resume))
    return upload(first_latents(resolved, resume, shared.latents, noise).data(), shared.latents, stream);
  noise.make_on(shared.noise_state);
  noise.fill(shared.latents, stream);
}

}  // namespace tachy
