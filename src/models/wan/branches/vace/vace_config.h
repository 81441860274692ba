// Sizes of VACE's control blocks, which let a video follow another one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tachy {

struct WanVaceConfig {
  // The transformer blocks after which a hint is added; empty: a model without control.
  std::vector<int64_t> layers;
  int64_t in_channels = 96;  // channels of the control's latents

  bool present() const { return !layers.empty(); }
  int64_t hint_of(int64_t layer) const;  // index of the hint that is added after that block; -1 if none is

  bool operator==(const WanVaceConfig&) const = default;

  // Reads `vace_layers`, for a model of num_layers blocks, and `vace_in_channels`, which is called
  // `vace_in_dim` in the original's dialect.
  static WanVaceConfig from_json(const nlohmann::json& j, int64_t num_layers);
};

}  // namespace tachy
