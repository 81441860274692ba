// Where two speakers are in the picture.
#pragma once

#include <span>

#include "nn/params.h"

namespace tachy {

class WanDit;

// Tells for each token of a latent frame whether it belongs to the first speaker, the second one or the
// background. An attention with `values` as its values returns the sum of its weights on each region.
struct WanRegions {
  // [tokens of a frame, dim] of the activations' dtype: channels 0 to 2 of a head are the masks, the others 0
  Tensor values;
  Tensor sizes;  // [3] f32: number of tokens in each region
  bool defined() const { return values.defined(); }
};

// `masks` are those of the first speaker, the second one and the background, with 0 or 1 for each token of a
// latent frame, in the grid's order.
WanRegions make_regions(const WanDit& dit, std::span<const uint8_t> masks, nn::ParamStore& store);

}  // namespace tachy
