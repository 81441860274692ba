// Plans what each of several ranks computes in a request's denoising passes.
#pragma once

#include "resolve/resolved.h"
#include "session/model.h"

namespace tachy {

// Returns nothing if the model's runs have one rank. Throws unsupported if the request is of a kind whose
// tokens cannot be divided.
std::vector<RankPlan> plan_ranks(const Model& model, const Resolved& request);

}  // namespace tachy
