// A Denoiser that makes a video block by block, for rollout.h: it remembers the blocks before the current one.
#pragma once

#include "denoise/denoiser.h"
#include "models/wan/branches/actions/script.h"

namespace tachy {

// The range of a profile that covers a whole block, with its first latent frame.
inline constexpr const char* kBlockRange = "video block";

class BlockDenoiser : public Denoiser {
 public:
  // Returns the place for a block's latents [z, frames, h, w]: passes need not copy them if they lie there.
  virtual Tensor latents(int64_t frames) const = 0;
  // Begins the next `frames` latent frames, which follow the actions of the script.
  virtual void begin_block(int64_t frames, const WanScript& script) = 0;
  // Remembers the block's finished latents as later blocks will see them: a pass at timestep 0, without
  // noise.
  virtual void remember(const Tensor& latents) = 0;
  virtual int64_t end() const = 0;  // end of the frames that have begun
};

}  // namespace tachy
