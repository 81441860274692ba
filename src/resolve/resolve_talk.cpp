#include "resolve/resolve_talk.h"

#include <cmath>

#include "base/error.h"
#include "request/speakers.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

constexpr double kFrameRate = 25;  // frames per second with which InfiniteTalk was trained
constexpr int kMostFrames = 65536;

void check_model(const ModelBundle& model, const VideoRequest& r) {
  const bool follows = model.dit.audio_branch();
  require(r.speech || !follows,
          "`speech`: this transformer follows speech (InfiniteTalk's audio branch); give the sound of it");
  if (!r.speech) return;
  require(follows,
          "`speech`: this transformer has no audio branch; name InfiniteTalk's file (`infinitetalk`) beside "
          "an image-to-video model (Wan2.1-I2V-14B)");
  check(model.audio_encoder != nullptr, ErrorCode::not_found,
        "`audio_encoder`: speech is heard through a wav2vec2 (chinese-wav2vec2-base), and {} has none: name "
        "its folder or file",
        model.files.root.string());
  check(model.family->talks, ErrorCode::unsupported,
        "`speech`: expected an image-to-video model with one transformer and one picture (Wan2.1-I2V), but "
        "this is one of the {} models",
        model.kind());
}

void check_others(const VideoRequest& given, const VideoRequest& r) {
  require(*r.fps == kFrameRate, "`fps`: talking photos are made at 25 frames a second, got {}", *r.fps);
  require(r.windows == "none" || r.windows == "infinitetalk" || r.windows == "even",
          "`windows`: with speech expected infinitetalk or even, got '{}'", r.windows);
  require(r.init_latents.empty(), "`init_latents`: a talking photo begins with noise; leave it out");
  require(r.riflex == 0,
          "`riflex`: a talking photo is made in windows of the model's own length; leave it out");
  check(given.sparse_attention.value_or(0) == 0, ErrorCode::unsupported,
        "`sparse_attention`: it cannot be combined with speech; leave it out");
}

// Computes int(len / 16000 * 25) in double precision, as InfiniteTalk counts.
int64_t frames_of(size_t samples) {
  return static_cast<int64_t>(static_cast<double>(samples) / Wav2Vec2Config::kSampleRate * kFrameRate);
}

}  // namespace

TalkWindows resolve_talk(const ModelBundle& model, const VideoRequest& given, VideoRequest& r) {
  check_model(model, r);
  resolve_speakers(r);
  if (!r.speech) {
    require(r.windows != "infinitetalk" && r.windows != "even", "`windows`: {} is for videos with speech",
            r.windows);
    return {};
  }
  check_others(given, r);
  r.color_correction = r.color_correction.value_or(r.recipe == "wrapper" ? 0 : 1);
  // InfiniteTalk uses its own grid with euler and lcm only; other samplers take the wrapper's.
  if (!given.grid && *r.grid == "multitalk" && !find_few_step_list(*r.sampler)) {
    const SamplerKind kind = parse_sampler(*r.sampler);
    if (kind != SamplerKind::euler && kind != SamplerKind::lcm) r.grid = "wrapper";
  }
  const size_t samples = spoken_samples(r);
  const int64_t spoken = frames_of(samples);
  const auto least = static_cast<size_t>(model.audio.least_samples());
  require(spoken >= 1 && samples >= least,
          "`speech`: {} samples at 16 kHz are too short to follow; give at least a second", samples);
  require(given.frames || spoken <= kMostFrames,
          "`speech`: it takes {} frames, but at most {} can be made at once; `frames` {} would make the "
          "first of them",
          spoken, kMostFrames, kMostFrames);
  const int64_t stride = model.vae_config.temporal_stride();
  const auto whole = [&](const char* name, int value) {
    require(value % stride == 1,
            "`{}`: expected a multiple of {} plus 1 with speech, got {}; {} or {} would work", name, stride,
            value, (value - 1) / stride * stride + 1, (value - 1) / stride * stride + 1 + stride);
  };
  whole("window_frames", *r.window_frames);
  whole("motion_frames", r.motion_frames);
  require(r.motion_frames < *r.window_frames,
          "`motion_frames`: expected fewer than the window's {} frames, got {}", *r.window_frames,
          r.motion_frames);
  if (r.windows == "none") r.windows = "infinitetalk";
  TalkWindows out{.frames = given.frames ? std::min<int64_t>(*given.frames, spoken) : spoken,
                  .spoken = spoken,
                  .window = *r.window_frames,
                  .motion = r.motion_frames};
  if (r.windows == "even") out = even_windows(out);
  r.frames = static_cast<int>(out.frames);
  return out;
}

}  // namespace tachy
