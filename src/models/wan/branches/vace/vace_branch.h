// VACE: a video that follows another one, its control. It does so by blocks of its own, of the same kind as
// the transformer's. With x the tokens before the first block, c the control's, and layers l_0 = 0 < l_1 < …:
//   c = W_in·patches(control) + x
//   after block l_i:  c = ControlBlock_i(c);   x += s_i·W_i·c          s_i: how strongly the hint is followed
// A hint depends on no other block, so it is made where it is added, and nothing but c itself is kept.
#pragma once

#include <memory>
#include <span>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

// The control that a pass follows (WanInput::given).
struct WanControl {
  static constexpr const char* kName = "a control video";
  Tensor latents;  // [B, in_channels, T, H, W] f32, where the model computes
  Tensor scales;   // [hints, dim] f32: row i is s_i everywhere
  std::vector<Tensor> tensors() const { return {latents, scales}; }
};

// `scales` has one value per hint; empty: all are 1.
WanControl make_control(const WanDit& dit, const Tensor& latents, std::span<const float> scales,
                        nn::ParamStore& store);

std::unique_ptr<WanBranch> make_vace_branch(const Scope& scope, const WanConfig& config,
                                            nn::ParamStore& store);

}  // namespace tachy
