// VACE makes a video that follows another one, its control, by extra blocks of the same kind as the
// transformer's. Let x be the tokens before the first block, c the control's, and l_0 = 0 < l_1 < … layers:
//   c = W_in·patches(control) + x
//   after block l_i:  c = ControlBlock_i(c);   x += s_i·W_i·c          s_i: how strongly the hint is followed
// A hint depends on no other block, so it is made where it is added, and only c is kept. If all s_i are 0, or
// there is no control, none of this is computed, and the bits are those of the transformer without it.
#pragma once

#include <memory>
#include <span>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

// The control video of a pass (WanInput::given).
struct WanControl {
  static constexpr const char* kName = "a control video";
  Tensor latents;  // [B, in_channels, T, H, W] f32, where the model computes; undefined: nothing is followed
  Tensor scales;   // [hints, dim] f32: all values of row i are s_i
  std::vector<Tensor> tensors() const { return {latents, scales}; }
};

// `scales` has one value per hint; if empty, all are 1. With zeros alone, the control is not followed.
WanControl make_control(const WanDit& dit, const Tensor& latents, std::span<const float> scales,
                        nn::ParamStore& store);

std::unique_ptr<WanBranch> make_vace_branch(const Scope& scope, const WanConfig& config,
                                            nn::ParamStore& store);

}  // namespace tachy
