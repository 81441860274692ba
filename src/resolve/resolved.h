// A request for one model with every value filled in and checked, and what its values stand for, each read once and of its own
// type: whoever plans or runs it asks no field again. Nothing changes it once it is prepared.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/wan/sparse.h"
#include "models/wan/timestep.h"
#include "request/context_windows.h"
#include "request/guidance.h"
#include "request/step_cache_config.h"
#include "samplers/sampler.h"
#include "tensor/precision.h"
#include "tensor/without.h"

namespace tachy {

// This is made of a request's pictures and sounds once the video's size is known. Reading them is a front's matter (api/engine.cpp).
struct MadeInputs {
  std::shared_ptr<const Picture> image, last_image;  // of the video's size
  std::vector<float> clip_pixels, speech, speech_2;  // as ResolvedRequest's, and this:
  std::vector<uint8_t> speaker_regions;
};

struct Resolved : ResolvedRequest {
  Sampler sampler{SamplerConfig{}};
  std::vector<Branches> guidance;  // of each expert
  WindowPlan windows;
  StepCacheConfig step_cache;
  std::optional<WanSparse> sparse;  // block-sparse self-attention,
  int dense_steps = 0;              // after so many steps
  std::optional<Sinusoid> sinusoid;
  // How the device that it was resolved for computes it.
  Precision precision;
  Without without;
  bool graphs = false;  // on a GPU: steps may be captured

  void take(MadeInputs&& made) {
    request.image = std::move(made.image), request.last_image = std::move(made.last_image);
    clip_pixels = std::move(made.clip_pixels), speech = std::move(made.speech);
    speech_2 = std::move(made.speech_2), speaker_regions = std::move(made.speaker_regions);
  }
  // Guidance's branches of the steps that have most.
  int64_t most_branches() const {
    size_t most = 1;
    for (const Branches& b : guidance) most = std::max(most, b.size());
    return static_cast<int64_t>(most);
  }
};

}  // namespace tachy
