#include "resolve/resolve.h"

#include <algorithm>

#include "base/log.h"
#include "ops/implementations.h"
#include "request/precision_of.h"
#include "request/request_fields.h"
#include "resolve/apply_preset.h"
#include "resolve/read_values.h"
#include "resolve/resolve_blocks.h"
#include "resolve/resolve_footage.h"
#include "resolve/resolve_images.h"
#include "resolve/resolve_sparse.h"
#include "resolve/resolve_step_cache.h"
#include "resolve/resolve_talk.h"

namespace tachy {
namespace {

void check_multiple(const char* field, int value, int64_t multiple) {
  const int64_t below = std::max(value / multiple * multiple, multiple);
  require(value % multiple == 0, "`{}`: {} is not a multiple of {}; {} or {} would work", field, value,
          multiple, below, below + multiple);
}

void check_frames(int value, int64_t stride) {
  const int64_t below = (value - 1) / stride * stride + 1;
  require((value - 1) % stride == 0, "`frames`: {} is not {}n + 1; {} or {} would work", value, stride, below,
          below + stride);
}

// The list of a distilled model sets steps and shift itself. With a preset, a different value that was given
// is an error, since it would not count; without one it has always been ignored.
template <class T>
void take_from_list(const FewStepList& list, const VideoRequest& given, const char* field,
                    const std::optional<T>& wanted, std::optional<T>& value, T listed) {
  value = listed;
  if (!wanted || *wanted == listed) return;
  require(!given.preset, "`{}`: the list {} of `preset` {} has {}; leave it out, or give another `sampler`",
          field, list.name, *given.preset, listed);
  warn("`{}`: the list {} has {}; {} is not used", field, list.name, listed, *wanted);
}

void resolve_sampler(const VideoRequest& given, VideoRequest& r) {
  const FewStepList* list = find_few_step_list(*r.sampler);
  if (!list) {
    parse_sampler(*r.sampler);  // throws, naming those that would work
    return;
  }
  if (!given.steps || !few_step_takes(*list, *given.steps))
    take_from_list(*list, given, "steps", given.steps, r.steps, list->config.steps);
  take_from_list(*list, given, "shift", given.shift, r.shift, list->config.shift);
}

// `r` is the request with the model's defaults filled in.
void resolve_guidance(const ModelBundle& model, const VideoRequest& given, VideoRequest& r) {
  if (model.experts() == 1) {
    require(!given.guidance_2,
            "`guidance_2`: {} is meant for a low-noise expert, but this model has only one transformer; "
            "leave it out",
            given.guidance_2.value_or(0));
    r.guidance_2.reset();
  } else if (given.guidance && !given.guidance_2) {
    r.guidance_2 = r.guidance;  // as in diffusers, a scale that is given alone counts for both
  }
  if (!r.high_noise_steps) return;
  require(
      model.experts() == 2,
      "`high_noise_steps`: {} is meant for a model with two experts, but this one has only one transformer; "
      "leave it out",
      *r.high_noise_steps);
  require(*r.high_noise_steps <= *r.steps,
          "`high_noise_steps`: expected 0 to {}, the number of `steps`, got {}", *r.steps,
          *r.high_noise_steps);
}

// Turns on what the level includes, unless the request says otherwise. `gpu` is the GPU's part of it, or null
// on the CPU.
void resolve_level(VideoRequest& r, const GpuMode* gpu) {
  require(r.int8_keys == "auto" || r.attention == "int8",
          "`int8_keys`: {} needs `attention` int8, but that is {}; leave it out, or set that, too",
          r.int8_keys, r.attention);
  if (ops::parse_without(r.without).has(Optimisation::step_cache)) r.step_cache = 0;
  r.without = ops::without_names(r.without);
  const Mode mode = find_level(r.level).mode;
  r.step_cache = r.step_cache.value_or(gpu ? gpu->step_cache : mode.step_cache);
  if (gpu) {
    r.dtype = dtype_name(gpu->activation), r.residual = dtype_name(gpu->residual);
    if (gpu->products == Products::e4m3) r.math = "fp8";  // the level's choice is recorded in the settings
    return;
  }
  const Compute wanted = r.dtype ? parse_compute(*r.dtype) : mode.compute;
  check_definitions({.compute = wanted, .definitions = mode.reference});
  r.dtype = wanted == Compute::bf16 ? "bf16" : "f32";
  require(r.attention == "auto", "`attention`: {} needs `device` cuda{}", r.attention,
          r.attention == "int8" ? ", and compute capability 8.0 or later there" : "");
  require(r.math != "fp8", "`math`: fp8 needs `device` cuda; int8 works here");
  require(r.math != "tf32", "`math`: tf32 needs `device` cuda, and `dtype` f32 there");
  require(r.math != "int8" || !mode.reference,
          "`math`: level none runs the definitions, which compute in f32");
  require(r.math != "bf16" || wanted == Compute::bf16,
          "`math`: bf16 needs products in bf16, and `dtype` is f32");
  const std::string residual = r.residual.value_or("f32");
  require(residual == "f32",
          "`residual`: expected f32, got '{}': a 16-bit residual stream needs `device` cuda", residual);
}

// Returns the plan in latent frames. Throws invalid_argument if neighbours would share a whole window.
WindowPlan window_plan(const VideoRequest& r, const ModelBundle& model) {
  WindowPlan out;
  if (r.speech) return out;  // windows of speech are planned in TalkWindows
  naming("`windows`", [&] { out.kind = parse_window_kind(r.windows); });
  if (out.kind == WindowKind::none) return out;
  naming("`window_mask`", [&] { out.mask = parse_window_mask(r.window_mask); });
  const int64_t latent = model.vae_config.temporal_stride();
  out.frames = model.vae_config.latent_frames(*r.window_frames);
  out.overlap = r.window_overlap / latent;
  out.strides = std::max<int64_t>(1, r.window_stride / latent);
  require(out.overlap < out.frames,
          "`window_overlap`: expected fewer than the window's {} frames, got {} ({} and {} latent frames)",
          *r.window_frames, r.window_overlap, out.frames, out.overlap);
  return out;
}

}  // namespace

Resolved resolve(const ModelBundle& model, const VideoRequest& given, const GpuMode* gpu) {
  Resolved out;
  VideoRequest& r = out.request;
  const Family& family = *model.family;
  check(!family.no_request, ErrorCode::unsupported, "{}: {}", model.files.root.string(),
        family.no_request ? family.no_request : "");
  r = given;
  apply_preset(model, r);
  if (r.block > 0 && !r.guidance) r.guidance = 1.0;  // such models are trained to need no guidance
  const bool shifted = r.shift.has_value();          // whether the caller or the preset has set it
  fill_fields(r, model.defaults);
  const bool small = (*r.width == 832 && *r.height == 480) || (*r.width == 480 && *r.height == 832);
  if (!shifted && small && model.original && family.defaults.small_shift)
    r.shift = family.defaults.small_shift;

  check_fields(r);
  check_multiple("width", *r.width, model.size_multiple());
  check_multiple("height", *r.height, model.size_multiple());
  settle_frames(model, given, r);
  if (!r.speech) check_frames(*r.frames, model.vae_config.temporal_stride());
  resolve_guidance(model, given, r);
  naming("`sampler`", [&] { resolve_sampler(given, r); });
  naming("`grid`", [&] { parse_grid(*r.grid); });
  check_images(model, r);
  resolve_level(r, gpu);
  resolve_sparse(model, r, gpu);
  out.talk = resolve_talk(model, given, r);
  out.windows = window_plan(r, model);
  const int64_t time_pairs = (model.dit.head_dim - 4 * (model.dit.head_dim / 6)) / 2;
  require(r.riflex <= time_pairs, "`riflex`: the model's time axis has {} frequencies, got {}", time_pairs,
          r.riflex);

  out.latent_channels = model.vae_config.z_dim;
  out.clip_frames = out.talk.frames > 0 ? out.talk.window : *r.frames;
  out.latent_frames = model.vae_config.latent_frames(out.clip_frames);
  out.latent_height = *r.height / model.vae_config.spatial_stride();
  out.latent_width = *r.width / model.vae_config.spatial_stride();
  out.guidance = guidance_of(r);
  for (const Branches& branches : out.guidance)
    out.guided = out.guided || std::ranges::any_of(branches, &Branch::negative);
  out.pictured = r.image && family.image_input != ImageInput::none;
  if (out.pictured && !r.image_embeds) out.clip_pictures = seen_pictures(model.dit);
  resolve_blocks(model, given, out);
  resolve_footage(model, given, out);
  resolve_step_cache(model, given, ops::parse_without(r.without).has(Optimisation::step_cache), out);
  const auto expected =
      static_cast<size_t>(out.latent_channels * out.latent_frames * out.latent_height * out.latent_width);
  require(r.init_latents.empty() || r.init_latents.size() == expected,
          "`init_latents`: expected {} values [{}, {}, {}, {}] for this size, got {}", expected,
          out.latent_channels, out.latent_frames, out.latent_height, out.latent_width, r.init_latents.size());
  read_values(r, gpu, out);
  return out;
}

}  // namespace tachy
