#include "pipelines/request.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "pipelines/model_bundle.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

void check_size(const char* option, int value, int64_t multiple) {
  require(value >= multiple && value <= 16384, "--{}: expected {} to 16384 pixels, got {}", option, multiple,
          value);
  const int64_t below = value / multiple * multiple;
  require(value % multiple == 0, "--{}: {} is not a multiple of {}; {} or {} would work", option, value,
          multiple, std::max(below, multiple), below + multiple);
}

void check_frames(int value, int64_t stride) {
  require(value >= 1 && value <= 65536, "--frames: expected 1 to 65536, got {}", value);
  const int64_t below = (value - 1) / stride * stride + 1;
  require((value - 1) % stride == 0, "--frames: {} is not {}n + 1; {} or {} would work", value, stride, below,
          below + stride);
}

bool known_sampler(const std::string& name) {
  for (const FewStepList& list : few_step_lists())
    if (list.name == name) return true;
  parse_sampler(name);  // throws with the names that would work
  return true;
}

}  // namespace

ResolvedRequest resolve(const ModelBundle& model, const VideoRequest& given) {
  ResolvedRequest out;
  VideoRequest& r = out.request;
  r = given;
  const VideoRequest& d = model.defaults;
  if (!r.negative_prompt) r.negative_prompt = d.negative_prompt;
  if (!r.width) r.width = d.width;
  if (!r.height) r.height = d.height;
  if (!r.frames) r.frames = d.frames;
  if (!r.fps) r.fps = d.fps;
  if (!r.steps) r.steps = d.steps;
  if (!r.guidance) r.guidance = d.guidance;
  if (!r.shift) r.shift = d.shift;
  if (!r.sampler) r.sampler = d.sampler;
  if (!r.grid) r.grid = d.grid;

  check(model.kind == "text-to-video" || model.kind == "text-and-image-to-video", ErrorCode::unsupported,
        "this is an {} model: generate takes text-to-video models; its transformer runs through `tachyscope "
        "stage`",
        model.kind);
  check(!model.files.transformer_2.present(), ErrorCode::unsupported,
        "models of two experts (transformer_2) are not supported yet");
  check_size("width", *r.width, model.size_multiple());
  check_size("height", *r.height, model.size_multiple());
  check_frames(*r.frames, model.vae_config.temporal_stride());
  require(*r.fps > 0 && *r.fps <= 1000, "--fps: expected above 0 to 1000, got {}", *r.fps);
  require(*r.steps >= 1 && *r.steps <= 1000, "--steps: expected 1 to 1000, got {}", *r.steps);
  require(std::isfinite(*r.guidance) && *r.guidance >= 0 && *r.guidance <= 100,
          "--guidance: expected 0 to 100, got {}", *r.guidance);
  require(*r.shift > 0 && *r.shift <= 100, "--shift: expected above 0 to 100, got {}", *r.shift);
  require(r.rng == "cpu" || r.rng == "cuda", "--rng: expected cpu or cuda, got '{}'", r.rng);
  require(r.rng_multiprocessors >= 1 && r.rng_multiprocessors <= 1024,
          "--rng-multiprocessors: expected 1 to 1024, got {}", r.rng_multiprocessors);
  require(r.max_text_tokens >= 1 && r.max_text_tokens <= 4096,
          "--max-sequence-length: expected 1 to 4096, got {}", r.max_text_tokens);
  known_sampler(*r.sampler);
  parse_grid(*r.grid);
  if (r.sinusoid) parse_sinusoid(*r.sinusoid);

  out.latent_channels = model.vae_config.z_dim;
  out.latent_frames = model.vae_config.latent_frames(*r.frames);
  out.latent_height = *r.height / model.vae_config.spatial_stride();
  out.latent_width = *r.width / model.vae_config.spatial_stride();
  out.guided = *r.guidance > 1;
  const auto expected =
      static_cast<size_t>(out.latent_channels * out.latent_frames * out.latent_height * out.latent_width);
  require(r.init_latents.empty() || r.init_latents.size() == expected,
          "--init-latents: expected {} values [{}, {}, {}, {}] for this size, got {}", expected,
          out.latent_channels, out.latent_frames, out.latent_height, out.latent_width, r.init_latents.size());
  return out;
}

}  // namespace tachy
