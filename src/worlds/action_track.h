// Records what was held down in each pixel frame of a session, as far back as later blocks look (for
// Matrix-Game 2: 12 frames before a block, and its own frames), so a session without end does not grow.
#pragma once

#include <vector>

#include "models/wan/branches/actions/action_config.h"
#include "models/wan/branches/actions/script.h"

namespace tachy {

class ActionTrack {
 public:
  explicit ActionTrack(const WanActionConfig& config) : config_(config) {}

  // Adds the action that the block [first, first + frames) of latent frames follows; keyboard and mouse have
  // as many values as the model takes. The script is valid until the next call.
  WanScript add(int64_t first, int64_t frames, const std::vector<float>& keyboard,
                const std::vector<float>& mouse);
  int64_t kept() const { return end_ - begin_; }  // pixel frames

 private:
  WanActionConfig config_;
  int64_t begin_ = 0, end_ = 0;  // the range of pixel frames that are kept
  std::vector<float> keyboard_, mouse_;
};

}  // namespace tachy
