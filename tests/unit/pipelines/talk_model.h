// The tiny image-to-video model made to talk (talk_weights.h), and requests of it.
#pragma once

#include "image_model.h"
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

// Windows of 9 frames that take over 5.
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
  ResolvedRequest r = pipeline.resolved(request);
  r.speech = request.speech->samples;  // as the Engine gives it, but for its loudness
  pipeline.generate(pipeline.prepare(std::move(r)), collecting(out, std::move(callbacks)), resume);
  return out;
}

inline RunState copy_of(const RunStateView& v) {
  RunState out{v.step, {v.latents.begin(), v.latents.end()}, {}, v.generator, v.window, v.windows, v.frames,
               {}};
  for (const auto& tensor : v.solver) out.solver.emplace_back(tensor.begin(), tensor.end());
  out.motion.assign(v.motion.begin(), v.motion.end());
  return out;
}

}  // namespace tachy::test
