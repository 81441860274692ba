// Sizes of VACE's control blocks, by which a video follows another one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "weights/tensor_source.h"

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

  // Finds the same by the tensors of a file without a config.json. They tell how many control blocks there are,
  // but not where their hints are added. In all published models these places are evenly spread: 0, 2, …, 28
  // for 15 blocks of 30 layers, 0, 5, …, 35 for 8 of 40.
  static WanVaceConfig from_tensors(const TensorSource& source, int64_t num_layers);
};

}  // namespace tachy
