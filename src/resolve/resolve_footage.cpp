#include "resolve/resolve_footage.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/env.h"
#include "base/error.h"
#include "base/notice.h"
#include "request/footage.h"
#include "resolve/control_texts.h"

namespace tachy {
namespace {

constexpr double kUsualStrength = 0.8;  // diffusers' default
constexpr int64_t kMostClipFrames = 65533;
constexpr int64_t kLeastSide = 16;  // of what outpainting leaves of a frame, in pixels

struct Named {
  const char* field;
  bool given;
};

std::string length_text(const Footage& f, double fps) {
  const int64_t there = frames_at(f, fps);
  if (there == f.frames) return count_of(f.frames, "frame");
  return fmt::format("{} at {:.4g} a second, which are {} at {:.4g}", count_of(f.frames, "frame"), f.fps,
                     there, fps);
}

void check_footage(const char* field, const Footage* f) {
  require(!f || (f->frames >= 1 && f->width >= 1 && f->height >= 1 && f->fps >= 0 && std::isfinite(f->fps)),
          "`{}`: expected a video, got {} frames of {}x{} at {} a second", field, f ? f->frames : 0,
          f ? f->width : 0, f ? f->height : 0, f ? f->fps : 0.0);
}

void check_all(const VideoRequest& r) {
  check_footage("video", r.video.get());
  check_footage("control_video", r.control_video.get());
  check_footage("mask_video", r.mask_video.get());
}

// Throws unless the video has as many frames as the clip takes of it.
void expect_length(const char* field, const Footage& f, double fps, int64_t wanted, int64_t stride,
                   const char* another_way) {
  const int64_t there = frames_at(f, fps);
  require(there >= wanted, "`{}`: {} has {}, but {} are needed; `frames` {} would work{}", field, called(f),
          length_text(f, fps), wanted, (there - 1) / stride * stride + 1, another_way);
}

void refuse_control(const ModelBundle& model, const VideoRequest& r) {
  const auto refuse = [&](const char* field, const std::string& value) {
    fail(ErrorCode::unsupported,
         "`{}`: this {} model follows no control{}; VACE models do (Wan2.1-VACE, Fun-VACE of Wan2.2)", field,
         model.kind(), value.empty() ? "" : fmt::format(" (got '{}')", value));
  };
  const std::array<Named, 5> inputs = {{{"control_video", r.control_video != nullptr},
                                        {"reference", r.reference != nullptr},
                                        {"reference_2", r.reference_2 != nullptr},
                                        {"reference_3", r.reference_3 != nullptr},
                                        {"reference_4", r.reference_4 != nullptr}}};
  for (const Named& input : inputs)
    if (input.given) refuse(input.field, "");
  if (r.outpaint) refuse("outpaint", *r.outpaint);
  if (r.keep) refuse("keep", *r.keep);
  if (r.vace_strength) refuse("vace_strength", *r.vace_strength);
  require(!r.mask_video || r.video,
          "`mask_video`: it says which part of `video` is made anew; give that, too");
}

void resolve_start(const VideoRequest& given, ResolvedRequest& out, int64_t stride) {
  VideoRequest& r = out.request;
  if (!r.video) {
    require(!given.strength, "`strength`: it says how much of `video` is made anew; give that, too");
    return;
  }
  r.strength = r.strength.value_or(kUsualStrength);
  require(r.init_latents.empty(), "`init_latents`: the clip begins with `video`; leave one of them out");
  require(!r.speech, "`video`: a talking photo begins with a picture (`image`); leave the video out");
  check(r.block == 0, ErrorCode::unsupported,
        "`block`: a clip that begins with `video` is made as a whole; leave one of them out");
  expect_length("video", *r.video, *r.fps, *r.frames, stride, "");
  if (r.mask_video && r.mask_video->frames > 1 && !r.control_video)
    expect_length("mask_video", *r.mask_video, *r.fps, *r.frames, stride, "");
}

// Finds which frames and pixels of the clip the control video gives.
void place_control(ResolvedRequest& out, int64_t stride) {
  const VideoRequest& r = out.request;
  ControlPlan& plan = out.control;
  const int64_t frames = *r.frames, width = *r.width, height = *r.height;
  if (!r.control_video) {
    for (const Named& f : {Named{"mask_video", r.mask_video && !r.video},
                           Named{"outpaint", r.outpaint.has_value()}, Named{"keep", r.keep.has_value()}})
      require(!f.given, "`{}`: it is about `control_video`; give that, too", f.field);
    return;
  }
  plan.end = frames, plan.right = width, plan.bottom = height;
  plan.kept = r.outpaint || r.keep;
  if (r.keep) {
    const auto [first, last] = parse_keep(*r.keep);
    require(first <= last && last < frames,
            "`keep`: expected FIRST-LAST within the clip's frames 0 to {}, got '{}'", frames - 1, *r.keep);
    plan.first = first, plan.end = last + 1;
  }
  if (r.outpaint) {
    const auto [left, top, right, bottom] = parse_outpaint(*r.outpaint);
    plan.left = left, plan.top = top, plan.right = width - right, plan.bottom = height - bottom;
    require(plan.right - plan.left >= kLeastSide && plan.bottom - plan.top >= kLeastSide,
            "`outpaint`: '{}' leaves {}x{} of {}x{} pixels for `control_video`, at least {}x{} are needed",
            *r.outpaint, std::max<int64_t>(plan.right - plan.left, 0),
            std::max<int64_t>(plan.bottom - plan.top, 0), width, height, kLeastSide, kLeastSide);
  }
  const int64_t wanted = plan.end - plan.first;
  expect_length("control_video", *r.control_video, *r.fps, wanted, stride,
                r.keep ? ", or a shorter `keep`" : "; `keep` makes a longer clip of it");
  if (r.mask_video && r.mask_video->frames > 1)
    expect_length("mask_video", *r.mask_video, *r.fps, wanted, stride, "");
}

void resolve_control(const ModelBundle& model, ResolvedRequest& out, int64_t stride) {
  const VideoRequest& r = out.request;
  ControlPlan& plan = out.control;
  const VaeConfig& vae = model.vae_config;
  const WanVaceConfig& vace = model.dit.vace;
  const int64_t channels = 2 * vae.z_dim + vae.spatial_stride() * vae.spatial_stride();
  check(vace.in_channels == channels, ErrorCode::unsupported,
        "this transformer's control has {} channels; VACE models take {} (two videos and a mask)",
        vace.in_channels, channels);
  const Picture* const references[] = {r.reference.get(), r.reference_2.get(), r.reference_3.get(),
                                       r.reference_4.get()};
  for (size_t i = 1; i < std::size(references); ++i)
    require(!references[i] || references[i - 1], "`reference_{}`: there is no picture before it", i + 1);
  plan.scales = parse_strengths(r.vace_strength.value_or("1"), vace.layers.size());
  place_control(out, stride);
  plan.follows = !std::ranges::all_of(plan.scales, [](float s) { return s == 0; });
  if (!plan.follows) return;
  for (const Picture* picture : references) plan.references += picture != nullptr;
  if (plan.references == 0) return;
  check(!r.video, ErrorCode::unsupported,
        "`video`: a clip that begins with a video cannot look at a `reference`; leave one of them out");
  require(r.init_latents.empty(),
          "`init_latents`: they leave no room for a `reference`; leave one of them out");
}

}  // namespace

void settle_frames(const ModelBundle& model, const VideoRequest& given, VideoRequest& r) {
  check_all(r);
  const bool lead = r.control_video && !r.keep;
  const Footage* const footage = r.video ? r.video.get() : lead ? r.control_video.get() : nullptr;
  if (!footage || given.frames || r.speech) return;
  const int64_t there = frames_at(*footage, *r.fps), stride = model.vae_config.temporal_stride();
  const int64_t most = r.windows == "none" ? *model.defaults.frames : kMostClipFrames;
  const int64_t frames = (std::min(there, most) - 1) / stride * stride + 1;
  r.frames = static_cast<int>(frames);
  if (frames != there)
    say_line(fmt::format("`{}`: {} has {}; the first {} make the clip{}", r.video ? "video" : "control_video",
                         called(*footage), length_text(*footage, *r.fps), frames,
                         there > most ? " (`frames` and `windows` make a longer one)" : ""));
}

void resolve_footage(const ModelBundle& model, const VideoRequest& given, ResolvedRequest& out) {
  const int64_t stride = model.vae_config.temporal_stride();
  resolve_start(given, out, stride);
  if (model.family->follows)
    resolve_control(model, out, stride);
  else
    refuse_control(model, out.request);
  out.latent_frames += out.control.references;
}

}  // namespace tachy
