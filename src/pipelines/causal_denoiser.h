// A video block by block, each in a few passes of a Wan transformer that remembers the frames before it (models/wan/causal.h).
// For every block: begin_block, the steps of a DenoiseLoop over its latents, remember. rollout.h is the loop over blocks.
#pragma once

#include <map>
#include <span>

#include "models/wan/dit.h"
#include "pipelines/denoiser.h"
#include "weights/tensor_source.h"

namespace tachy {

struct CausalInput {
  const WanDit* network = nullptr;
  const TensorSource* weights = nullptr;  // the network's file, in which it may use weights where they lie
  std::span<const double> timesteps;      // of a block's steps
  Tensor text;                            // [n, text_dim] f32; undefined where the model has none
  int64_t text_rows = 0;                  // rows of the text's context; what is beyond n is padding
  Tensor image_embeds;                    // where the model looks at a picture
  // [c, frames, h, w] f32 behind the latents' z; undefined without. Frames past its last one have what that one has.
  Tensor channels;
  WanWindow window;
  int64_t z = 16, height = 0, width = 0;  // of the latents
  std::vector<int64_t> block_lengths;     // all that there will be, in latent frames
  std::optional<Sinusoid> sinusoid;       // the network's unless given
  BufferShelf* shelf = nullptr;           // whose Buffers its tensors lie in, if not its own
};

class CausalDenoiser : public Denoiser {
 public:
  CausalDenoiser(const CausalInput& in, Stream& stream);

  // The next so many latent frames, which follow these actions.
  void begin_block(int64_t frames, const WanScript& script);
  void predict(const Tensor& latents, int step,
               const Tensor& velocity) override;  // velocity [1, z, frames, h, w]
  // The block's finished latents, as later blocks will see them: a pass at timestep 0, without noise.
  void remember(const Tensor& latents);
  int64_t end() const { return causal_.end(); }  // frames that have begun

  uint64_t bytes() const override { return store_.bytes(); }

 private:
  WanInput input(const Tensor& latents, int64_t time) const;

  Stream& stream_;
  nn::ParamStore store_;
  const WanDit& network_;
  const TensorSource& weights_;
  int64_t z_;
  Tensor channels_;
  WanContext context_;
  WanCausal causal_;
  WanTimes times_;                    // of the steps, then of timestep 0
  std::map<int64_t, WanGrid> grids_;  // by the length of a block
  const WanGrid* grid_ = nullptr;     // of the block at hand
  Tensor input_;                      // [z + c, frames of the longest block, h, w]
};

}  // namespace tachy
