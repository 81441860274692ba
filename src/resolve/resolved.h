// A request for one model, with every value filled in and checked, and the typed objects that its values
// stand for. Each value is read once: whoever plans or runs the request does not read its fields again.
// Nothing changes it once it is prepared.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/wan/sparse.h"
#include "models/wan/timestep.h"
#include "request/clip_pixels.h"
#include "request/context_windows.h"
#include "request/guidance.h"
#include "request/step_cache_config.h"
#include "samplers/sampler.h"
#include "tensor/precision.h"
#include "tensor/without.h"

namespace tachy {

// The inputs that are made from a request's pictures and sounds once the video's size is known. Reading them
// is up to a front end (api/engine.cpp).
struct MadeInputs {
  std::shared_ptr<const Picture> image, last_image;  // the pictures in the video's size
  std::vector<float> clip_pixels, speech, speech_2;  // as in ResolvedRequest, like the next member
  std::vector<uint8_t> speaker_regions;
  std::shared_ptr<const ClipPixels> footage;  // null: the request has neither videos nor references
};

struct Resolved : ResolvedRequest {
  Sampler sampler{SamplerConfig{}};
  std::vector<Branches> guidance;  // one for each expert
  WindowPlan windows;
  StepCacheConfig step_cache;
  std::optional<WanSparse> sparse;  // block-sparse self-attention
  int dense_steps = 0;              // number of first steps without it
  std::optional<Sinusoid> sinusoid;
  // The precision in which the device computes that the request was resolved for.
  Precision precision;
  Without without;
  bool graphs = false;                        // on a GPU: steps may be captured
  std::shared_ptr<const ClipPixels> footage;  // as in MadeInputs

  void take(MadeInputs&& made) {
    request.image = std::move(made.image), request.last_image = std::move(made.last_image);
    clip_pixels = std::move(made.clip_pixels), speech = std::move(made.speech);
    speech_2 = std::move(made.speech_2), speaker_regions = std::move(made.speaker_regions);
    footage = std::move(made.footage);
  }
  // Returns the number of guidance's branches in the steps that have the most.
  int64_t most_branches() const {
    size_t most = 1;
    for (const Branches& b : guidance) most = std::max(most, b.size());
    return static_cast<int64_t>(most);
  }
};

}  // namespace tachy
