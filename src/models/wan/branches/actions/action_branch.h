// Matrix-Game 2's actions as a branch: in some blocks, between cross-attention and feed-forward, keyboard and
// mouse act on the tokens of a latent frame (action.h). The keys and values of earlier frames' actions are
// kept in separate rings without sinks.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/branches/actions/action.h"
#include "models/wan/wan_config.h"

namespace tachy {

// The memory of a causal video for all of its action modules (WanCausal::memory).
struct WanActionMemory {
  static constexpr const char* kName = "actions' memory";
  Tensor mouse, keyboard;  // actions of the current block: [needed, mouse_dim], [needed, keyboard_dim] f32
  Tensor mouse_cos, mouse_sin, keyboard_cos, keyboard_sin;  // [frames, heads, pairs] f32
  runtime::KvRing mouse_ring, keyboard_ring;
  std::vector<Tensor> tensors() const { return {mouse, keyboard}; }
};

std::unique_ptr<WanBranch> make_action_branch(const Scope& scope, const WanConfig& config,
                                              nn::ParamStore& store);

}  // namespace tachy
