// A video block by block, each in a few passes of a Wan transformer that remembers the frames before it (models/wan/causal.h).
// For every block: begin_block, the steps of a DenoiseLoop over its latents, remember. rollout.h is the loop over blocks.
//
// Graphs. Once the ring is full, what differs from block to block is which slots a block takes; positions, actions and
// timesteps are values at fixed addresses. The slots come round again after (frames - sinks) / gcd(block, frames - sinks)
// blocks (2 of Matrix-Game 2, 7 of Self-Forcing), so there is a graph for each of these phases, of a step and of the pass
// that remembers: the same kernels as without, with no reading of slots on the device. Blocks before that run as they are.
// What follows from a block's actions alone is left by its first pass: with a keyboard, a first step is a graph of its own.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>

#include "denoise/denoiser.h"
#include "models/wan/branches/actions/script.h"
#include "models/wan/dit.h"
#include "runtime/step_graph.h"
#include "weights/tensor_source.h"

namespace tachy {

// The range of a profile that holds all of a block, with its first latent frame.
inline constexpr const char* kBlockRange = "video block";

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
  bool few_in_eight_bits = false;         // WanKeys'
  bool graphs = false;                    // passes of blocks that see a full window may be captured
};

// Of the GPU's memory, to be set aside for the graphs of a ring's phases: the driver's own, about 10 KiB a kernel. An
// allowance: how many kernels a pass is depends on the products' implementations.
uint64_t causal_graph_bytes(const WanConfig& config, const WanWindow& window, int64_t block);

class CausalDenoiser : public Denoiser {
 public:
  CausalDenoiser(const CausalInput& in, Stream& stream);

  // Where the latents of a block of so many frames may lie, [z, frames, h, w]: from there no pass has to copy them.
  Tensor latents(int64_t frames) const;
  // The next so many latent frames, which follow these actions.
  void begin_block(int64_t frames, const WanScript& script);
  void predict(const Tensor& latents, int step,
               const Tensor& velocity) override;  // velocity [1, z, frames, h, w]
  // The block's finished latents, as later blocks will see them: a pass at timestep 0, without noise.
  void remember(const Tensor& latents);
  int64_t end() const { return causal_.end(); }  // frames that have begun

  uint64_t bytes() const override { return store_.bytes(); }
  int captures() const;                       // passes captured so far
  std::vector<std::string> captured() const;  // what their nodes are (cuda::Graph::names)

 private:
  // Where a block lies in the rings: blocks of one phase are the same work at the same addresses.
  struct Phase {
    int64_t frames, slot, more_slot;  // more: of what branches remember
    bool fill_only, known;            // WanCausal's
    auto operator<=>(const Phase&) const = default;
  };
  void put_channels();
  WanInput input(const Tensor& latents, int64_t time) const;
  std::optional<Phase> phase(const WanInput& in) const;  // nothing: the pass runs as it is
  void pass(const WanInput& in, const Tensor& velocity);
  void graphed(const Phase& at, const WanInput& in, const Tensor& velocity);

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
  int64_t settled_ = 0;               // length of the blocks whose channels are in it and stay; 0: none yet
  bool graphs_, few_in_eight_bits_;
  // Where passes may be captured: the rows of times_, embedding and projection beside each other; the one of this pass.
  Tensor rows_, row_;
  std::map<Phase, runtime::StepGraph> phases_;
};

}  // namespace tachy
