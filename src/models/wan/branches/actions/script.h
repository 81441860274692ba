// This tells what was pressed in each pixel frame, as those who make a video block by block give it to Matrix-Game 2's action modules.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// On the host: [n, keyboard_dim] and [n, mouse_dim] f32. A block whose latent frames end before `end` needs those of
// 1 + frames_each·(end - 1) pixel frames, and looks at all but the last of them, as far back as WanActionConfig::frame_of
// says: a session of any length need not keep those before.
struct WanScript {
  static constexpr const char* kName = "actions";
  Tensor keyboard, mouse;
  int64_t first_frame = 0;  // the pixel frame of the first row
  std::vector<Tensor> tensors() const { return {keyboard, mouse}; }
};

}  // namespace tachy
