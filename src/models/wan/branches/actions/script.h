// The keys and mouse moves of each pixel frame, in the form in which Matrix-Game 2's action modules get them
// from the code that makes a video block by block.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// Actions [n, keyboard_dim] and [n, mouse_dim] f32 on the host. A block whose latent frames end before `end`
// needs the actions of 1 + frames_each·(end - 1) pixel frames. It reads all but the last of them, and only as
// far back as WanActionConfig::frame_of says, so even a long session need not keep older ones.
struct WanScript {
  static constexpr const char* kName = "actions";
  Tensor keyboard, mouse;
  int64_t first_frame = 0;  // the pixel frame of the first row
  std::vector<Tensor> tensors() const { return {keyboard, mouse}; }
};

}  // namespace tachy
