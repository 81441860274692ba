// The whole clip in one forward pass of a Wan transformer, all guidance branches as one batch. What no step
// changes is made once, when it is constructed: keys and values of the texts, rope tables, the time path of
// all steps. On a GPU the pass is a CUDA graph from its second or third time on, or, where an earlier job of
// the same shape has captured it, from its first (runtime/step_graph.h).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "denoise/denoiser.h"
#include "models/wan/branches/audio/audio.h"
#include "models/wan/dit.h"
#include "runtime/rank_team.h"
#include "runtime/step_graph.h"
#include "weights/tensor_source.h"

namespace tachy {

struct ClipInput {
  const WanDit* network = nullptr;
  const TensorSource* weights = nullptr;  // the network's file, in which it may use weights where they lie
  std::span<const double> timesteps;      // of the steps that it predicts,
  int first_step = 0;                     // which begin with this one
  std::vector<Tensor> texts;              // [n, text_dim] f32, one for each guidance branch
  int64_t text_rows = 0;                  // rows of a text's context; what is beyond n is padding
  Tensor image_embeds;  // the same for all branches, on the host or where it computes; undefined without
  Tensor channels;      // [c, T, h, w] behind the latents' z; undefined without
  Tensor given;  // [z, n, h, w] f32: the first latent frames, where they are not denoised; undefined without
  // Of models with the audio branch: what each speaker says, and whether each guidance branch hears it. Of two speakers also
  // where they are (make_regions).
  std::vector<AudioWindow> speech = {};
  std::span<const uint8_t> regions = {};
  std::vector<bool> hears;
  std::vector<int64_t> latent_shape;    // z, T, h, w
  std::optional<Sinusoid> sinusoid;     // the network's unless given
  std::optional<WanSparse> sparse;      // block-sparse self-attention
  int riflex = 0;                       // WanDit::make_grid's
  bool few_in_eight_bits = false;       // WanKeys'
  int dense_steps = 0;                  // of the whole run: the steps before this one are dense nevertheless
  uint64_t serial = 0;                  // of the network (LoadedPart)
  runtime::StepGraph* graph = nullptr;  // where the pass may be captured
  runtime::RankTeam* ranks = nullptr;   // that divide the pass; null: one has all
  BufferShelf* shelf = nullptr;         // whose Buffers its tensors lie in, if not its own
};

class ClipDenoiser : public Denoiser {
 public:
  ClipDenoiser(const ClipInput& in, Stream& stream) : ClipDenoiser(in, {}, stream) {}

  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void put_given(const Tensor& x) const override;
  int kind(int step) const override { return keys_.all() || step < dense_steps_ ? 0 : 1; }
  uint64_t bytes() const override { return store_.bytes(); }

  // For whoever lets it predict one part of a longer clip after another (windows_denoiser.h). Other channels [c, T, h, w]
  // in the place of ClipInput's:
  void put_channels(const Tensor& channels);
  // At which of its frames the longer clip begins; -1: at none.
  virtual void place_first(int64_t frame) { (void)frame; }

 protected:
  // fixed_times: timesteps that every step has beside its own; tokens point at them through `row_`.
  ClipDenoiser(const ClipInput& in, std::vector<double> fixed_times, Stream& stream);

  const WanGrid& grid() const { return pass_->grid; }

  Stream& stream_;
  nn::ParamStore store_;
  Tensor row_;  // WanInput::row for all branches; undefined: all tokens are at the step's own timestep

 private:
  void make_contexts(const ClipInput& in);
  void make_speech(const ClipInput& in);

  // What a forward pass reads: a graph that outlives the denoiser holds it, too.
  struct Pass {
    const WanDit* network = nullptr;
    WanGrid grid;
    std::vector<WanContext> contexts;
    std::vector<WanAudio> audio;  // one a branch; those that hear the same are the same
    // One of all branches, or, without batched guidance, one a branch; of ranks those of each group's branches.
    struct Input {
      int group = 0;
      int64_t first_branch = 0;
      WanInput wan;
    };
    std::vector<Input> inputs;

    // comm: the ranks of this group; null: there is one.
    void forward(int group, runtime::Comm* comm, const Tensor& velocity, Stream& stream) const;
  };
  const Pass& prepare(int step);
  WanInput input_of(int64_t first, int64_t last, const WanTimes& times, int kind) const;  // of these branches
  void forward_on_ranks(const Pass& pass, int kind, const Tensor& velocity);
  // Returns the stream that a rank computes on; only the first rank's is watched.
  Stream stream_of(int rank, Arena& arena) const;
  size_t scratch_of(int rank, const Pass& pass,
                    const Tensor& velocity);  // bytes, by a pass that only measures
  runtime::StepSignature signature(const Tensor& velocity) const;

  const TensorSource& weights_;
  int first_step_;
  uint64_t serial_;
  int dense_steps_;
  WanKeys keys_;  // of the steps that are sparse
  bool few_in_eight_bits_;
  int64_t distinct_;  // timesteps of a step
  WanTimes times_;    // of all its steps
  WanTimes current_;  // where a pass may be captured: this step's, where it reads them
  Tensor given_;      // as ClipInput's
  Tensor input_;      // [branches, z + c, T, h, w]
  std::shared_ptr<Pass> pass_ = std::make_shared<Pass>();
  runtime::StepGraph* graph_;
  runtime::RankTeam* ranks_;
  runtime::RankLayout layout_;
  std::map<int, std::vector<size_t>> scratch_;  // of the ranks behind the first, of each kind of step
};

}  // namespace tachy
