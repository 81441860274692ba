// The numbers by which published step caches decide, for the models for which they were published. A model
// that brings its own ones uses those (generation_config.json).
#pragma once

#include "catalog/model_bundle.h"
#include "request/step_cache_config.h"

namespace tachy {

// `pixels` tells apart the versions of image-to-video models that were published for 480p and 720p, `pictured`
// a text-and-image-to-video model that is given a picture.
StepCacheValues step_cache_values(const ModelBundle& model, int64_t pixels, bool pictured);

// Returns the published numbers for a model of this config, which step_cache_values finds if the model brings none.
StepCacheValues published_step_cache_values(const WanConfig& config, int experts, int64_t pixels,
                                            bool pictured);

}  // namespace tachy
