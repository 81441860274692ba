// Makes a video block by block, each in a few passes of a Wan transformer that remembers the frames before it
// (models/wan/causal.h). Every block calls begin_block, the steps of a DenoiseLoop over its latents, and
// remember. rollout.h is the loop over blocks.
//
// Graphs: once the ring is full, blocks differ only in the slots that they take; positions, actions and
// timesteps are values at fixed addresses. The slots repeat after (frames - sinks) / gcd(block, frames -
// sinks) blocks (2 for Matrix-Game 2, 7 for Self-Forcing), so each of these phases has a graph for a step and
// one for the pass that remembers. They run the same kernels as without graphs and read no slots on the
// device. Earlier blocks run without graphs. A block's first pass computes and leaves what depends on its
// actions alone: with a keyboard, a first step has a graph of its own.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "denoise/block_denoiser.h"
#include "denoise/crew_passes.h"
#include "denoise/rank_passes.h"
#include "denoise/rank_seat.h"
#include "models/wan/dit.h"
#include "runtime/step_graph.h"
#include "weights/tensor_source.h"

namespace tachy {

struct CausalInput {
  const WanDit* network = nullptr;
  const TensorSource* weights = nullptr;  // the network's file, from which passes may read weights directly
  std::span<const double> timesteps;      // timesteps of one block's steps
  Tensor text;                            // [n, text_dim] f32; undefined if the model reads no text
  int64_t text_rows = 0;                  // rows of the text's context; those beyond n are padding
  Tensor image_embeds;                    // undefined unless the model looks at a picture
  // [c, frames, h, w] f32, channels that follow the latents' z channels; undefined: none. Later frames repeat
  // the last of these frames.
  Tensor channels;
  WanWindow window;
  int64_t z = 16, height = 0, width = 0;  // of the latents
  std::vector<int64_t> block_lengths;     // lengths of all blocks to come, in latent frames
  std::optional<Sinusoid> sinusoid;       // not given: the network's own
  BufferShelf* shelf = nullptr;           // provides the Buffers of its tensors; null: a shelf of its own
  bool few_in_eight_bits = false;         // as in WanKeys
  bool graphs = false;                    // passes of blocks that see a full window may be captured
  runtime::RankTeam* ranks = nullptr;     // these divide the passes; null: they are not divided among threads
  const RankSeat* seat = nullptr;         // the only rank of a team that this denoiser is; must outlive it
  runtime::Crew* crew = nullptr;          // its processes divide them; null: there is one process
  std::optional<runtime::RankLayout> crew_layout = {};  // how they do; not given: as RankLayout::of says
};

// Returns the bytes of the GPU's memory to set aside for the graphs of a ring's phases: the driver's own,
// about 10 KiB a kernel. This is an allowance, since the number of a pass's kernels depends on how products
// are implemented.
uint64_t causal_graph_bytes(const WanConfig& config, const WanWindow& window, int64_t block);

class CausalDenoiser final : public BlockDenoiser {
 public:
  CausalDenoiser(const CausalInput& in, Stream& stream);

  Tensor latents(int64_t frames) const override;
  void begin_block(int64_t frames, const WanScript& script) override;
  // `velocity` is [1, z, frames, h, w].
  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void remember(const Tensor& latents) override;
  int64_t end() const override { return causal_.end(); }
  // Copies a block's latents, which another device may hold, to where passes need not copy them.
  void take_latents(const Tensor& from);

  uint64_t bytes() const override { return store_.bytes(); }
  int captures() const;                       // passes captured so far
  std::vector<std::string> captured() const;  // kinds of their nodes (cuda::Graph::names)

 private:
  // A block's place in the rings: blocks of one phase are the same work at the same addresses.
  struct Phase {
    int64_t frames, slot, more_slot;  // more_slot is the slot for what branches remember
    bool fill_only, known;            // as in WanCausal
    auto operator<=>(const Phase&) const = default;
  };
  void put_channels();
  WanInput input(const Tensor& latents, int64_t time) const;
  std::optional<Phase> phase(const WanInput& in) const;  // nothing: the pass runs without a graph
  void pass(const WanInput& in, const Tensor& velocity);
  WanInput in_seat(const WanInput& in);
  void in_crew(const WanInput& in, const Tensor& velocity);
  void graphed(const Phase& at, const WanInput& in, const Tensor& velocity);
  void on_ranks(const WanInput& in, const Tensor& velocity);
  int64_t kind_of(const WanInput& in) const;
  // Calls visit with what each rank remembers.
  template <class Visit>
  void each_causal(Visit&& visit) {
    visit(causal_);
    for (WanCausal& other : of_ranks_) visit(other);
  }

  Stream& stream_;
  nn::ParamStore store_;
  const WanDit& network_;
  const TensorSource& weights_;
  int64_t z_;
  Tensor channels_;
  WanContext context_;
  RankPasses ranks_;
  const RankSeat* seat_;
  std::set<std::tuple<int64_t, int64_t>> seen_;  // the passes that it has run in its seat: slot and kind
  CrewPasses crew_;
  WanCausal causal_;                  // the first rank's, or this denoiser's
  std::vector<WanCausal> of_ranks_;   // the other ranks', each with its own heads
  WanTimes times_;                    // for the block's steps, and last for timestep 0
  std::map<int64_t, WanGrid> grids_;  // grids by the length of a block
  const WanGrid* grid_ = nullptr;     // the current block's
  Tensor input_;                      // [z + c, frames of the longest block, h, w]
  int64_t settled_ = 0;  // length of the blocks whose channels are in input_ and stay valid; 0: none yet
  bool graphs_, few_in_eight_bits_;
  // If passes may be captured: the rows of times_, embedding and projection side by side, and the row of this
  // pass.
  Tensor rows_, row_;
  std::map<Phase, runtime::StepGraph> phases_;
};

}  // namespace tachy
