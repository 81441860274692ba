// Where two speakers are in the picture.
#pragma once

#include <span>

#include "nn/params.h"

namespace tachy {

class WanDit;

// This tells of each token of a latent frame whether it belongs to the first speaker, the second one or the background. An attention
// takes `values` as its values, and gives the sum of its weights on each region.
struct WanRegions {
  // [tokens of a frame, dim] of the activations' dtype: a head's channels 0 to 2 are the masks, the others 0
  Tensor values;
  Tensor sizes;  // [3] f32: tokens of each
  bool defined() const { return values.defined(); }
};

// masks: of the first speaker, the second and the background, for each token of a latent frame in the grid's order 0 or 1.
WanRegions make_regions(const WanDit& dit, std::span<const uint8_t> masks, nn::ParamStore& store);

}  // namespace tachy
