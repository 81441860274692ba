// Predicts the whole clip in one forward pass of a Wan transformer, with all guidance branches as one batch.
// What is the same in all steps is made once, in the constructor: keys and values of the texts, rope tables,
// and the time path of all steps. On a GPU the pass becomes a CUDA graph with its second or third call, or
// its first if an earlier job of the same shape has captured it (runtime/step_graph.h).
#pragma once

#include <set>
#include <span>
#include <vector>

#include "denoise/block_schedule.h"
#include "denoise/crew_passes.h"
#include "denoise/denoiser.h"
#include "denoise/rank_passes.h"
#include "denoise/rank_seat.h"
#include "models/wan/branches/audio/audio.h"
#include "models/wan/branches/vace/vace_branch.h"
#include "models/wan/dit.h"
#include "runtime/step_graph.h"
#include "weights/tensor_source.h"

namespace tachy {

struct ClipInput {
  const WanDit* network = nullptr;
  const TensorSource* weights = nullptr;  // the network's file, from which passes may read weights directly
  std::span<const double> timesteps;      // timesteps of the steps that it predicts
  int first_step = 0;                     // the number of the first of these steps
  std::vector<Tensor> texts;              // [n, text_dim] f32, one for each guidance branch
  int64_t text_rows = 0;                  // rows of a text's context; those beyond n are padding
  Tensor image_embeds;  // the same for all branches, on the host or on the device; undefined: none
  Tensor channels;      // [c, T, h, w], after the latents' z channels; undefined: none
  // For models with control blocks: [c, T, h, w], the same for all branches, and how strongly each block counts;
  // undefined: they follow nothing.
  Tensor control = {};
  std::vector<float> control_scales = {};
  Tensor given;  // [z, n, h, w] f32: the first latent frames, if they are not denoised; undefined: none
  // For models with the audio branch: what each speaker says, and whether each guidance branch hears it. For
  // two speakers also where they are in the picture (make_regions).
  std::vector<AudioWindow> speech = {};
  std::span<const uint8_t> regions = {};
  std::vector<bool> hears;
  std::vector<int64_t> latent_shape;    // z, T, h, w
  std::optional<Sinusoid> sinusoid;     // not given: the network's own
  std::optional<WanSparse> sparse;      // block-sparse self-attention
  int riflex = 0;                       // as in WanDit::make_grid
  bool few_in_eight_bits = false;       // as in WanKeys
  int dense_steps = 0;                  // with `sparse`: the number of steps at the beginning of the whole
                                        // run that attend to all keys
  uint64_t serial = 0;                  // serial number of the network (LoadedPart)
  runtime::StepGraph* graph = nullptr;  // keeps the captured pass; null: it is not captured
  runtime::RankTeam* ranks = nullptr;   // these divide the pass; null: it is not divided among threads
  const RankSeat* seat = nullptr;       // the only rank of a team that this denoiser is; must outlive it
  runtime::Crew* crew = nullptr;        // its processes divide the pass; null: there is one process
  std::optional<runtime::RankLayout> crew_layout = {};  // how they do; not given: as RankLayout::of says
  // If steps reuse what the blocks added (StepCacheConfig::of_blocks): how they decide. `steps` lacks what
  // this struct says otherwise.
  const StepCacheConfig* step_cache = nullptr;
  BlockSteps steps = {};
  BufferShelf* shelf = nullptr;  // provides the Buffers of its tensors; null: a shelf of its own
};

class ClipDenoiser : public Denoiser {
 public:
  ClipDenoiser(const ClipInput& in, Stream& stream) : ClipDenoiser(in, {}, stream) {}

  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void put_given(const Tensor& x) const override;
  int kind(int step) const override { return keys_.all() || step < dense_steps_ ? 0 : 1; }
  uint32_t reuses(int step) const override;
  uint64_t bytes() const override { return store_.bytes(); }

  // For callers that let it predict one part of a longer clip after another (windows_denoiser.h): replaces
  // the channels of ClipInput by others, [c, T, h, w].
  void put_channels(const Tensor& channels);
  void put_control(const Tensor& control);  // the same for ClipInput::control
  // Tells at which of its frames the longer clip begins; -1: at none of them.
  virtual void place_first(int64_t frame) { (void)frame; }

 protected:
  // fixed_times are timesteps that every step has besides its own; `row_` assigns them to tokens.
  ClipDenoiser(const ClipInput& in, std::vector<double> fixed_times, Stream& stream);

  const WanGrid& grid() const { return pass_->grid; }

  Stream& stream_;
  nn::ParamStore store_;
  Tensor row_;  // WanInput::row for all branches; undefined: all tokens are at the step's own timestep

 private:
  void make_contexts(const ClipInput& in);
  bool copy_contexts(const std::vector<WanContext>& from);
  void make_speech(const ClipInput& in);
  void make_control_of(const ClipInput& in);
  void make_schedule(const ClipInput& in);

  // The inputs of a forward pass: a graph that outlives the denoiser holds them, too.
  struct Pass {
    const WanDit* network = nullptr;
    WanGrid grid;
    std::vector<WanContext> contexts;
    std::vector<WanAudio> audio;        // one per branch; branches that hear the same speech share it
    std::optional<WanControl> control;  // with a copy for each branch
    // One input for all branches, or one per branch without batched guidance; with ranks, there are inputs
    // for each group's branches.
    struct Input {
      int group = 0;
      int64_t first_branch = 0;
      WanInput wan;
    };
    std::vector<Input> inputs;

    // `comm` connects the ranks of this group, and is null if there is only one. `ring` is that of the ranks'
    // layout.
    void forward(int group, runtime::Comm* comm, int ring, const Tensor& velocity, Stream& stream) const;
  };
  const Pass& prepare(int step);
  // Returns the input for these branches, which are alike in what they reuse.
  WanInput input_of(int64_t first, int64_t last, const WanTimes& times, int step) const;
  // Computes this denoiser's share of a pass.
  void forward_in_seat(int kind, const Tensor& velocity);
  runtime::StepSignature signature(const Tensor& velocity) const;

  const TensorSource& weights_;
  int first_step_;
  uint64_t serial_;
  int dense_steps_;
  WanKeys keys_;  // for the sparse steps
  bool few_in_eight_bits_;
  int64_t distinct_;                // number of timesteps of a step
  WanTimes times_;                  // the time path of all its steps
  std::vector<uint32_t> schedule_;  // reuses() of each of its steps; empty: nothing is reused
  Tensor added_;      // [branches, tokens, dim] f32: what the blocks added the last time; undefined: not kept
  WanTimes current_;  // this step's values, where a captured pass reads them
  Tensor given_;      // as in ClipInput
  Tensor input_;      // [branches, z + c, T, h, w]
  std::shared_ptr<Pass> pass_ = std::make_shared<Pass>();
  runtime::StepGraph* graph_;
  RankPasses ranks_;
  const RankSeat* seat_;
  std::set<int> kinds_;  // the kinds of steps that it has predicted in its seat
  CrewPasses crew_;
};

}  // namespace tachy
