// Guidance: what a step's passes see, and with what weights their predictions are added up. c: prompt and speech; t: the
// negative prompt and speech; a: prompt, no speech; n: neither.
//
//   text alone     n + g(c - n)
//   both           n + g(c - t) + s(t - n), and as the wrapper has it n + g((c - t) + s(t - n)); with s = 1 both are t + g(c - t)
//   speech alone   a + s(c - a)
#pragma once

#include <vector>

#include "request/request.h"

namespace tachy {

struct Branch {
  float weight = 1;  // those of a step sum to 1
  bool negative = false, silent = false;
};
using Branches = std::vector<Branch>;

// Of each part (Denoiser::part) of a resolved request. A scale of 1 or less is none.
std::vector<Branches> guidance_of(const VideoRequest& request);

}  // namespace tachy
