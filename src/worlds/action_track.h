// What was held down in each pixel frame of a session, as far back as blocks to come look (Matrix-Game 2: 12 frames before a
// block, and its own): a session without end takes no more of it.
#pragma once

#include <vector>

#include "models/wan/branches/actions/action_config.h"
#include "models/wan/branches/actions/script.h"

namespace tachy {

class ActionTrack {
 public:
  explicit ActionTrack(const WanActionConfig& config) : config_(config) {}

  // The block [first, first + frames) of latent frames follows this action; keyboard and mouse have as many values as the model.
  // The script is valid until the next call.
  WanScript add(int64_t first, int64_t frames, const std::vector<float>& keyboard,
                const std::vector<float>& mouse);
  int64_t kept() const { return end_ - begin_; }  // pixel frames

 private:
  WanActionConfig config_;
  int64_t begin_ = 0, end_ = 0;  // pixel frames that are kept
  std::vector<float> keyboard_, mouse_;
};

}  // namespace tachy
