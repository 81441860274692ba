// Plans what each of several ranks computes in a request's denoising passes.
#pragma once

#include "resolve/resolved.h"
#include "session/model.h"
#include "tensor/work_tally.h"

namespace tachy {

struct SharedPass {
  std::vector<RankPlan> ranks;  // empty: a single rank does everything
  Parallel parallel;
  bool equal_bits = true;  // whether the bits are those of one rank
  std::string why;         // a sentence without its end, about the choice
};

// Throws invalid_argument if the request has too few branches or tokens for what `parallel` asks, and
// unsupported if the request is of a kind that ranks cannot divide in this way.
SharedPass plan_ranks(const Model& model, const Resolved& request);

void put(SharedPass&& shared, VideoPlan& plan);  // tells it in the plan

// Says whether this work, which a measure run has counted, is what ranks send each other.
bool is_exchange(const OpWork& work);

}  // namespace tachy
