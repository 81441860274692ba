// Sizes of VACE's control blocks, which let a video follow another one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tachy {

struct WanVaceConfig {
  std::vector<int64_t>
      layers;  // the transformer blocks behind which a hint is added; none: a model without control
  int64_t in_channels = 96;  // of the control's latents

  bool present() const { return !layers.empty(); }
  int64_t hint_of(int64_t layer) const;  // which one is added behind that block; -1: none

  bool operator==(const WanVaceConfig&) const = default;

  // `vace_layers` of a model of so many blocks, and `vace_in_channels`, which is `vace_in_dim` in the original's dialect.
  static WanVaceConfig from_json(const nlohmann::json& j, int64_t num_layers);
};

}  // namespace tachy
