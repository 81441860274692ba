// Makes a video from text (and a picture): the prompt becomes token ids and umT5's embeddings, the picture
// goes through the VAE's encoder, the Wan transformer denoises, and the VAE decodes frames, which are handed
// out as they are made. Text encoder, transformer and VAE are loaded and released in turn, unless
// `keep_loaded`.
//
// This ties together the Model, which all runs share, and the Sessions, one for each run. All functions here
// may be called from several threads at once.
#pragma once

#include "engine/known_plans.h"
#include "engine/session_pool.h"
#include "request/gpu_mode.h"

namespace tachy {

class TextToVideo {
 public:
  using Options = ModelOptions;

  explicit TextToVideo(std::shared_ptr<Model> model) : shared_model_(std::move(model)) {}
  TextToVideo(ModelBundle model, Options options)
      : TextToVideo(std::make_shared<Model>(std::move(model), std::move(options))) {}

  // The model, so that worlds can share it.
  const std::shared_ptr<Model>& shared_model() const { return shared_model_; }
  const ModelBundle& model() const { return model_.bundle(); }
  int threads() const { return model_.threads(); }
  const cuda::Gpu* gpu() const { return model_.gpu(); }  // null: on the CPU

  // A request that is ready to run. Each member is made once; the plan is then shown, checked and followed.
  struct Prepared {
    Resolved request;
    Prompts prompts;
    VideoPlan plan;
    Products vae = Products::as_activations;               // products of the VAE's residual blocks
    std::shared_ptr<const RequestAdapters> adapters = {};  // null: the request has no adapters
  };

  // Returns the request with everything filled in and checked, as this pipeline's device runs it. If its
  // pictures do not have the video's size yet, or it has sounds, it must take the inputs that are made from
  // them (Resolved::take) before it is prepared.
  Resolved resolved(const VideoRequest& request);
  // Tokenises and plans the request; loads no weights. The memory in the plan is exact. Throws cancelled soon after
  // `cancel` is set.
  Prepared prepare(Resolved request, const std::atomic<bool>* cancel = nullptr);
  void estimate_seconds(Prepared& prepared);
  // Throws out_of_memory, with both numbers, if the plan needs more than this process may take.
  void check_memory(const VideoPlan& plan) const { sessions_.check_memory(plan); }
  // Says whether the request could begin at once now (SessionPool::fits_beside).
  bool fits_beside(const Prepared& prepared) {
    return sessions_.fits_beside(prepared.plan, prepared.request.precision, prepared.vae);
  }
  // Returns the request as it was run. Waits if it would not fit beside what runs now. Throws cancelled if
  // callbacks.cancel is set, and out_of_memory before anything is loaded. Pictures must have the video's size
  // already (the Engine sees to that). `resume` is the state that an earlier run of the same request
  // reported; the rest then gives the same bits.
  Resolved generate(const Prepared& prepared, const VideoCallbacks& callbacks,
                    const RunState* resume = nullptr);

  // These take the request itself and prepare it first.
  VideoPlan plan(const VideoRequest& request);
  Resolved generate(const VideoRequest& request, const VideoCallbacks& callbacks,
                    const RunState* resume = nullptr) {
    return generate(prepare(resolved(request)), callbacks, resume);
  }

  // Counts how often this object has done each of these.
  struct Counters {
    int resolved = 0, tokenised = 0, planned = 0;
    int captured = 0;  // steps that were captured as graphs
    int reused = 0;    // those of `planned` that took an earlier plan
  };
  Counters counters() const { return {resolved_, tokenised_, planned_, captured_, plans_.reused()}; }
  size_t open_sessions() { return sessions_.sessions(); }

 private:
  // generate() as this process does it.
  Resolved generate_here(const Prepared& prepared, const VideoCallbacks& callbacks, const RunState* resume);
  Resolved resolved_for_gpu(const VideoRequest& request) const;
  Prompts tokenise(const Prepared& prepared, cuda::Gpu* gpu);

  std::shared_ptr<Model> shared_model_;
  Model& model_ = *shared_model_;
  SessionPool sessions_{model_};
  KnownPlans plans_;
  std::atomic<int> resolved_{0}, tokenised_{0}, planned_{0}, captured_{0};
};

}  // namespace tachy
