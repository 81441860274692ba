// Sizes of Matrix-Game 2's action module, which lets keyboard and mouse steer a causal model.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

struct WanActionConfig {
  std::vector<int64_t> blocks;  // the transformer blocks that have a module; empty if none has
  int64_t keyboard_dim = 4;     // number of keys
  int64_t mouse_dim = 2;        // 0 if there is no mouse
  int64_t hidden = 128;         // width of an action's embedding
  int64_t keyboard_hidden = 1024, mouse_hidden = 1024, heads = 16;
  // Pixel frames per latent frame, and how many latent frames' worth of actions a latent frame sees.
  int64_t frames_each = 4, windows = 3;
  int64_t turning = 8;  // channels of a head that the rope turns, each pair by its power of theta
  double theta = 256;

  bool present() const { return !blocks.empty(); }
  bool in_block(int64_t index) const;
  int64_t past() const { return frames_each * windows; }  // number of actions that a latent frame follows
  // Returns how many vectors of actions a block of `frames` latent frames needs. The i-th one belongs to
  // pixel frame max(0, frames_each·(first - windows) + i) of the session.
  int64_t needed(int64_t frames) const { return past() + frames_each * (frames - 1); }
  int64_t frame_of(int64_t first, int64_t i) const;

  bool operator==(const WanActionConfig&) const = default;

  void validate() const;  // throws unsupported

  // Reads `action_config` of the published config.json, for a model with `layers` blocks of width `dim`.
  static WanActionConfig from_json(const nlohmann::json& j, int64_t layers, int64_t dim);
  // Finds the sizes by the tensors' shapes, and takes the published number of heads; validate() says whether
  // that number is possible.
  static WanActionConfig from_tensors(const TensorSource& source, int64_t layers, int64_t dim);
};

}  // namespace tachy
