// How a clip follows a control in a model with control blocks (VACE). Standard types only, since this is part of the
// public interface.
#pragma once

#include <cstdint>
#include <vector>

namespace tachy {

struct ControlPlan {
  bool follows = false;        // whether there is anything to follow
  std::vector<float> scales;   // how strongly each control block's hint counts; empty: 1 for all
  int64_t references = 0;      // pictures, each of which is a latent frame before the clip's
  int64_t first = 0, end = 0;  // the frames of the clip that the control video gives; none if equal
  int64_t left = 0, top = 0, right = 0,
          bottom = 0;  // where it lies in these frames, in pixels: [left, right)
  bool kept = false;   // without a mask: whether its pixels are kept as they are, or followed
};

}  // namespace tachy
