// A stage of a generation: text, image-embeds, speech, image, video, denoise, decode or motion. A request's course
// has a list of them (engine/courses/course.h). Each is one piece of code that runs in two kinds of session:
// in a measuring one it loads and computes nothing and tells what it would hold, in a computing one it does
// its work.
#pragma once

#include <memory>
#include <vector>

#include "resolve/resolved.h"
#include "session/prompts.h"

namespace tachy {

class NoiseSource;
class Session;
class TalkProgress;
namespace nn {
class ParamStore;
}

// Values that live across stages: embeddings of the texts and the pictures, the picture's latents, and the
// latents. For a talking photo also the audio encoder's states for each frame, on the host, and, from window
// to window, the last frames and the VAE's latents of them.
struct Shared {
  Tensor text, negative, image_embeds, condition, latents;
  Tensor start, control;  // stages/footage.h
  Tensor speech;          // [speakers, frames + TalkWindows::rows_behind, layers, width] f32
  Tensor tail, motion;    // [m, H, W, 3] and [z, T, h, w] f32
  Tensor noise_state;     // on a GPU: the state of the generator of noise there (NoiseSource::make_on)
  Shared(const ResolvedRequest& request, const ModelBundle& model, const Prompts& prompts,
         nn::ParamStore& store);
};

// One request on its way through the stages.
struct Job {
  const Resolved& request;
  const Prompts& prompts;
  const Shared& shared;
  const RunState* resume = nullptr;  // the run goes on after the steps of this state
  NoiseSource* noise = nullptr;      // for a computing session
  TalkProgress* progress = nullptr;  // for a talking photo of several windows, in a computing session
  int64_t window = 0;                // for a talking photo: the current one
  int steps_reused = 0;
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual const char* name() const = 0;
  // Returns the bytes of weights that the stage may use where they lie in the file.
  virtual uint64_t mapped_bytes(const ModelBundle& model, const Job& job) const = 0;
  // Returns the peak bytes of the Buffers that the stage held, including parts.
  virtual uint64_t run(Job& job, Session& session) const = 0;
};

}  // namespace tachy
