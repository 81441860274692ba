// Guidance: the inputs of a step's passes, and the weights with which their predictions are added up. c:
// prompt and speech; t: negative prompt and speech; a: prompt without speech; n: neither.
//
//   text alone     n + g(c - n)
//   both           n + g(c - t) + s(t - n), and in the wrapper n + g((c - t) + s(t - n)); with s = 1 both are t + g(c - t)
//   speech alone   a + s(c - a)
#pragma once

#include <vector>

#include "request/request.h"

namespace tachy {

struct Branch {
  float weight = 1;  // the weights of a step sum to 1
  bool negative = false, silent = false;
};
using Branches = std::vector<Branch>;

// Returns the branches for each part (Denoiser::part) of a resolved request. A scale of 1 or less means no
// guidance.
std::vector<Branches> guidance_of(const VideoRequest& request);

}  // namespace tachy
