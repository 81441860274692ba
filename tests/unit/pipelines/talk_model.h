// The tiny image-to-video model, which is made to talk (talk_weights.h), and requests for it.
#pragma once

#include "image_model.h"
#include "request/speakers.h"
#include "talk_weights.h"

namespace tachy::test {

struct TalkModel {
  ModelBundle open() const { return ModelBundle::open(image_file("i2v"), FileAccess::map, parts); }

  ScratchFolder scratch;
  PartPaths parts = TalkWeights(scratch.path).parts;
};

inline std::shared_ptr<const Speech> voice(int64_t frames) {
  return std::make_shared<Speech>(Speech{voice_samples(frames)});
}

// Makes a request with windows of 9 frames, each of which takes over 5.
inline VideoRequest talk_request(int64_t frames) {
  VideoRequest r = image_run("i2v_unipc").request;
  r.frames.reset(), r.sampler.reset(), r.shift.reset();
  r.steps = 2, r.guidance = 3, r.audio_guidance = 2;
  r.window_frames = 9, r.motion_frames = 5;
  r.speech = voice(frames);
  return r;
}

inline Result talk(TextToVideo& pipeline, const VideoRequest& request, VideoCallbacks callbacks = {},
                   const RunState* resume = nullptr) {
  Result out;
  if (resume) out.frames = static_cast<int>(resume->frames);
  Resolved r = pipeline.resolved(request);
  r.speech = request.speech->samples;  // the samples as the Engine would give them, except for their loudness
  pipeline.generate(pipeline.prepare(std::move(r)), collecting(out, std::move(callbacks)), resume);
  return out;
}

// Makes a request in which the second speaker says something else, and ends earlier.
inline VideoRequest two_talk(int64_t frames) {
  VideoRequest r = talk_request(frames);
  auto other = std::make_shared<Speech>(*r.speech);
  std::ranges::reverse(other->samples);
  other->samples.resize(other->samples.size() - 700);
  r.speech_2 = other;
  return r;
}

// Completes the request like the Engine, except for loudness: sounds are placed in time, and the masks are
// the left and the right part of the tokens.
inline Resolved complete(const TextToVideo& pipeline, Resolved r, int64_t left = 0) {
  const WanConfig& c = pipeline.model().dit;
  const int64_t rows = r.latent_height / c.patch_h, columns = r.latent_width / c.patch_w,
                tokens = rows * columns;
  r.speech = r.request.speech->samples, r.speech_2 = r.request.speech_2->samples;
  lay_in_time(*r.request.speakers, r.speech, r.speech_2);
  r.speaker_regions.assign(static_cast<size_t>(3 * tokens), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t x = t % columns, of = x < left + 1 ? 0 : x + 1 == columns && t > 0 ? 1 : 2;
    r.speaker_regions[static_cast<size_t>(of * tokens + t)] = 1;
  }
  return r;
}

inline Result talk_of_two(TextToVideo& pipeline, const VideoRequest& request, int64_t left = 0) {
  Result out;
  pipeline.generate(pipeline.prepare(complete(pipeline, pipeline.resolved(request), left)),
                    collecting(out, {}));
  return out;
}

inline RunState copy_of(const RunStateView& v) {
  RunState out{v.step, {v.latents.begin(), v.latents.end()}, {}, v.generator, v.window, v.windows, v.frames,
               {}};
  for (const auto& tensor : v.solver) out.solver.emplace_back(tensor.begin(), tensor.end());
  out.motion.assign(v.motion.begin(), v.motion.end());
  return out;
}

// All tests share one model: making it takes longer than most of them.
inline const TalkModel& talk_model() {
  static const TalkModel made;
  return made;
}

}  // namespace tachy::test
