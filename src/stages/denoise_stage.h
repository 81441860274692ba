// The denoise stage: chooses the Denoisers for a model and a request, and runs the loop over them.
#pragma once

#include <vector>

#include "catalog/model_bundle.h"
#include "samplers/sampler.h"

namespace tachy {

// Returns which of the model's transformers predicts at each step: always 0, or with two experts 0 for high
// noise and 1 for low noise.
std::vector<int> part_of_steps(const ModelBundle& model, const Schedule& schedule);

}  // namespace tachy
