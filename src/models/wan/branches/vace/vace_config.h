// Sizes of VACE's control blocks, by which a video follows another one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tachy {

struct WanVaceConfig {
  // The transformer blocks after which a hint is added; empty if the model takes no control.
  std::vector<int64_t> layers;
  int64_t in_channels = 96;  // channels of the control's latents

  bool present() const { return !layers.empty(); }
  int64_t hint_of(int64_t layer) const;  // index of the hint that is added after this block, or -1

  bool operator==(const WanVaceConfig&) const = default;

  // Reads `vace_layers`, for a model of num_layers blocks, and `vace_in_channels`, whose name in the
  // original's dialect is `vace_in_dim`.
  static WanVaceConfig from_json(const nlohmann::json& j, int64_t num_layers);
};

}  // namespace tachy
