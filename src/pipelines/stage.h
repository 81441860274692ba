// A stage of a generation: text, image-embeds, image, denoise or decode. A pipeline is a list of them (walk.h), and each is
// one piece of code that runs in two kinds of session: in a measuring one it loads and computes nothing and
// tells what it would hold, in a computing one it does its work.
#pragma once

#include <memory>
#include <vector>

#include "pipelines/noise_source.h"
#include "pipelines/prompts.h"

namespace tachy {

class Session;
namespace nn {
class ParamStore;
}

// What lives across stages: embeddings of the texts and the pictures, the picture's latents, and the latents.
struct Shared {
  Tensor text, negative, image_embeds, condition, latents;
  Shared(const ResolvedRequest& request, const ModelBundle& model, const Prompts& prompts,
         nn::ParamStore& store);
};

// One request on its way through the stages.
struct Job {
  const ResolvedRequest& request;
  const Prompts& prompts;
  const Shared& shared;
  const RunState* resume = nullptr;  // goes on after its steps
  NoiseSource* noise = nullptr;      // of a computing session
  int steps_reused = 0;
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual const char* name() const = 0;
  // Weights that it may use where they lie in the file.
  virtual uint64_t mapped_bytes(const ModelBundle& model, const Job& job) const = 0;
  // Returns the bytes of the Buffers that it held at its worst moment, parts included.
  virtual uint64_t run(Job& job, Session& session) const = 0;
};

std::unique_ptr<Stage> make_text_stage();
std::unique_ptr<Stage> make_image_embeds_stage();
std::unique_ptr<Stage> make_image_stage();
std::unique_ptr<Stage> make_denoise_stage();
std::unique_ptr<Stage> make_decode_stage();

}  // namespace tachy
