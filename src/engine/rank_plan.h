// This plans what each of several ranks computes of a request's denoising passes.
#pragma once

#include "resolve/resolved.h"
#include "session/model.h"

namespace tachy {

// Empty where the model's runs have one rank. Throws unsupported where the request is of a kind whose tokens are not divided.
std::vector<RankPlan> plan_ranks(const Model& model, const Resolved& request);

}  // namespace tachy
