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

void check_embeds(const WanConfig& dit, const ImageEmbeds* given) {
  const int64_t rows = dit.pos_embed_seq_len;
  const std::string expected = fmt::format("[{}, {}]", rows > 0 ? rows : 257, dit.image_dim);
  if (!dit.image_branch()) {
    require(given == nullptr, "--image-embeds: this model has no image branch; leave the option out");
    return;
  }
  require(given != nullptr,
          "--image-embeds: this model needs CLIP embeddings of its pictures too: a .safetensors file with "
          "'image_embeds' {}, saved from diffusers' encode_image",
          expected);
  int64_t count = 1;
  for (const int64_t extent : given->shape) count *= extent;
  const int64_t width = given->shape.empty() ? 0 : given->shape.back(), found = width > 0 ? count / width : 0;
  // The two pictures of a first-last-frame model may lie after each other or as a batch.
  const bool batch = given->shape.size() == 3 && given->shape[0] != 1 && !(rows > 0 && given->shape[0] == 2);
  require(width == dit.image_dim && found >= 1 && found <= 4096 && !batch && given->shape.size() >= 2 &&
              given->shape.size() <= 3 && (rows == 0 || found == rows) &&
              given->values.size() == static_cast<size_t>(count),
          "--image-embeds: expected {}, got [{}]", expected, fmt::join(given->shape, ", "));
  require(std::all_of(given->values.begin(), given->values.end(), [](float v) { return std::isfinite(v); }),
          "--image-embeds: the file holds NaN or Inf; save it again");
}

void check_images(const ModelBundle& model, const VideoRequest& r) {
  const WanConfig& dit = model.dit;
  const auto check_picture = [](const char* option, const Picture* p) {
    require(!p || (p->width > 0 && p->height > 0 &&
                   p->rgb.size() == static_cast<size_t>(p->width) * static_cast<size_t>(p->height) * 3),
            "--{}: expected a picture of 3 bytes a pixel, got {}x{} with {} bytes", option, p ? p->width : 0,
            p ? p->height : 0, p ? p->rgb.size() : 0);
  };
  check_picture("image", r.image.get());
  check_picture("last-image", r.last_image.get());
  require(r.image_fit == "stretch" || r.image_fit == "crop",
          "--image-fit: expected stretch or crop, got '{}'", r.image_fit);
  if (model.image_input == ImageInput::none) {
    require(!r.image && !r.last_image && !r.image_embeds,
            "--{}: this is a text-to-video model, which takes no picture; a text-and-image-to-video model "
            "(Wan2.2-TI2V-5B) or an image-to-video model would",
            r.image        ? "image"
            : r.last_image ? "last-image"
                           : "image-embeds");
    return;
  }
  require(r.image || !r.last_image, "--last-image: the first frame is needed too: --image FILE");
  check_embeds(dit, r.image_embeds.get());
  if (model.image_input == ImageInput::first_frame) {
    require(!r.last_image, "--last-image: this model takes only the first frame (--image)");
    require(!r.image || *r.frames > 1, "--frames: 1 would give back the picture of --image; 5 would work");
    return;
  }
  const int64_t channels = 2 * model.vae_config.z_dim + model.vae_config.temporal_stride();
  check(dit.in_channels == channels, ErrorCode::unsupported,
        "this transformer takes {} channels; image-to-video models take {} (noise, mask and picture)",
        dit.in_channels, channels);
  require(r.image != nullptr, "--image: this is an {} model: it needs a picture to begin with, --image FILE",
          model.kind);
  require(dit.pos_embed_seq_len == 0 || r.last_image,
          "--last-image: this model goes from one picture to another and needs both: --last-image FILE");
  require(!r.last_image || *r.frames > 1, "--frames: 1 has no room for --last-image; 5 would work");
}

bool known_sampler(const std::string& name) {
  for (const FewStepList& list : few_step_lists())
    if (list.name == name) return true;
  parse_sampler(name);  // throws with the names that would work
  return true;
}

void resolve_guidance(const ModelBundle& model, VideoRequest& r) {
  const bool given = r.guidance.has_value();
  if (!given) r.guidance = model.defaults.guidance;
  require(std::isfinite(*r.guidance) && *r.guidance >= 0 && *r.guidance <= 100,
          "--guidance: expected 0 to 100, got {}", *r.guidance);
  if (model.experts() == 1) {
    require(
        !r.guidance_2,
        "--guidance-2: {} is meant for a low-noise expert, and this model has one transformer; leave it out",
        r.guidance_2.value_or(0));
    return;
  }
  // As in diffusers, a scale that is given alone is meant for both.
  if (!r.guidance_2) r.guidance_2 = given ? r.guidance : model.defaults.guidance_2;
  require(std::isfinite(*r.guidance_2) && *r.guidance_2 >= 0 && *r.guidance_2 <= 100,
          "--guidance-2: expected 0 to 100, got {}", *r.guidance_2);
}

// What the level turns on where the request does not say. gpu: the GPU's side of it; null on the CPU.
void resolve_level(VideoRequest& r, const GpuMode* gpu) {
  const Mode mode = find_level(r.level).mode;
  r.step_cache = r.step_cache.value_or(gpu ? gpu->step_cache : mode.step_cache);
  require(*r.step_cache >= 0 && *r.step_cache <= 1, "--step-cache: expected 0 (off) to 1, got {}",
          *r.step_cache);
  if (gpu) {
    r.dtype = dtype_name(gpu->activation), r.residual = dtype_name(gpu->residual);
    return;
  }
  const Compute wanted = r.dtype ? parse_compute(*r.dtype) : mode.compute;
  require(!mode.reference || wanted == Compute::f32, "--dtype: level none runs definitions, in f32");
  r.dtype = wanted == Compute::bf16 ? "bf16" : "f32";
  const std::string residual = r.residual.value_or("f32");
  require(residual == "f32",
          "--residual: expected f32, got '{}': a 16-bit residual stream needs --device cuda", residual);
}

}  // namespace

Compute parse_compute(const std::string& dtype) {
  require(dtype == "f32" || dtype == "bf16", "--dtype: expected f32 or bf16, got '{}'", dtype);
  return dtype == "bf16" ? Compute::bf16 : Compute::f32;
}

Mode mode_of(const VideoRequest& r) {
  return {.reference = find_level(r.level).mode.reference,
          .compute = parse_compute(r.dtype.value_or("f32")),
          .step_cache = r.step_cache.value_or(0)};
}

ResolvedRequest resolve(const ModelBundle& model, const VideoRequest& given, const GpuMode* gpu) {
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
  if (!r.shift) r.shift = d.shift;
  // The original repository's rule for its 2.1 image-to-video models at their small size.
  const bool small = (*r.width == 832 && *r.height == 480) || (*r.width == 480 && *r.height == 832);
  if (!given.shift && small && model.files.layout == ModelFiles::Layout::original &&
      model.dit.image_branch() && model.dit.pos_embed_seq_len == 0)
    r.shift = 3.0;
  if (!r.sampler) r.sampler = d.sampler;
  if (!r.grid) r.grid = d.grid;

  check_size("width", *r.width, model.size_multiple());
  check_size("height", *r.height, model.size_multiple());
  check_frames(*r.frames, model.vae_config.temporal_stride());
  require(*r.fps > 0 && *r.fps <= 1000, "--fps: expected above 0 to 1000, got {}", *r.fps);
  require(*r.steps >= 1 && *r.steps <= 1000, "--steps: expected 1 to 1000, got {}", *r.steps);
  resolve_guidance(model, r);
  require(*r.shift > 0 && *r.shift <= 100, "--shift: expected above 0 to 100, got {}", *r.shift);
  require(r.rng == "cpu" || r.rng == "cuda", "--rng: expected cpu or cuda, got '{}'", r.rng);
  require(r.rng_multiprocessors >= 1 && r.rng_multiprocessors <= 1024,
          "--rng-multiprocessors: expected 1 to 1024, got {}", r.rng_multiprocessors);
  require(r.max_text_tokens >= 1 && r.max_text_tokens <= 4096,
          "--max-sequence-length: expected 1 to 4096, got {}", r.max_text_tokens);
  naming("--sampler", [&] { known_sampler(*r.sampler); });
  naming("--grid", [&] { parse_grid(*r.grid); });
  if (r.sinusoid) parse_sinusoid(*r.sinusoid);
  check_images(model, r);
  resolve_level(r, gpu);

  out.latent_channels = model.vae_config.z_dim;
  out.latent_frames = model.vae_config.latent_frames(*r.frames);
  out.latent_height = *r.height / model.vae_config.spatial_stride();
  out.latent_width = *r.width / model.vae_config.spatial_stride();
  out.guided = *r.guidance > 1 || r.guidance_2.value_or(0) > 1;
  out.pictured = r.image != nullptr;
  const auto expected =
      static_cast<size_t>(out.latent_channels * out.latent_frames * out.latent_height * out.latent_width);
  require(r.init_latents.empty() || r.init_latents.size() == expected,
          "--init-latents: expected {} values [{}, {}, {}, {}] for this size, got {}", expected,
          out.latent_channels, out.latent_frames, out.latent_height, out.latent_width, r.init_latents.size());
  return out;
}

}  // namespace tachy
