// The Wan video transformer: it takes latents, timestep and text, and returns the flow velocity. It covers
// 2.1 text-to-video and 2.2's per-token timesteps (TI2V-5B), with any dims. Branches contain what variants
// add (branch.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/wan/block.h"
#include "models/wan/branches/branches.h"
#include "models/wan/branches/image/image_embedding.h"
#include "nn/linear_registry.h"

namespace tachy {

// The values that depend only on the latent grid.
struct WanGrid {
  int64_t frames = 0, rows = 0, columns = 0;  // in tokens
  Tensor cos, sin;                            // [tokens, head_dim/2] f32, in the tokens' order
  // The position of each frame, row and column's token. If empty, tokens are in this order.
  std::vector<int32_t> places;
  Tensor place;  // [tokens] i32: the same on the model's device; undefined if `places` is empty
  int64_t place_of(int64_t token) const {
    return places.empty() ? token : places[static_cast<size_t>(token)];
  }
  int64_t tokens() const { return frames * rows * columns; }
};

// What the model makes of R different timesteps, computed once before the loop.
struct WanTimes {
  Tensor embedding;   // [R, dim] f32, for the head
  Tensor projection;  // [R, 6·dim] f32, for the blocks
};

// How several ranks divide the tokens: each has neighbours in the clip, or the same places of every frame, as
// branches need that look at whole frames, and videos that are made block by block.
enum class WanCut { clip, frames };

struct WanInput {
  Tensor latents;  // [B, C_in, T, H, W] f32
  const WanGrid* grid = nullptr;
  WanTimes times;  // the rows that this call uses
  Tensor row;      // [B·tokens] i32: each token's row in `times`, in the tokens' order; if undefined, row 0
  std::vector<const WanContext*> contexts;  // one for each of B
  // The keys to which self-attention attends: all, or blocks in the grid's order.
  WanKeys keys = {};
  // Set for a block of a video; it keeps earlier blocks, and B is 1.
  const WanCausal* causal = nullptr;
  // Only keeps this block's keys and values; velocity is not written and may be undefined.
  bool fill_only = false;
  // [B, tokens, dim] f32: what the blocks add to x, which a pass writes, or takes if it `reuses`: then only
  // patches and head are computed. Undefined: not kept. Ranks have their own tokens' rows of it.
  Tensor added = {};
  bool reuses = false;
  WanExtras given = {};  // inputs of the model's branches, such as speech
  // The ranks that share the grid's tokens. Each has the whole latents and contexts. If null, there is one
  // rank. `ring` is that of runtime::Spread.
  runtime::Comm* comm = nullptr;
  int ring = 1;
  WanCut cut = WanCut::clip;

  // Says which of the grid's tokens the ranks have. Tokens in an order of their own cannot be cut by frames.
  runtime::Spread spread() const {
    // A block's attention begins by remembering the keys of all of the rank's heads.
    return {.tokens = grid->tokens(),
            .frames = cut == WanCut::frames ? grid->frames : 1,
            .ring = ring,
            .together = causal != nullptr};
  }
};

class WanDit {
 public:
  // The tensors have diffusers' names (weights::dit_source maps the original ones).
  WanDit(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  const WanConfig& config() const { return config_; }
  // Returns the model's branch of class Branch, or null.
  template <class Branch>
  const Branch* branch() const {
    for (const auto& one : branches_)
      if (const auto* found = dynamic_cast<const Branch*>(one.get())) return found;
    return nullptr;
  }
  // Calls visit(index) for each block in order; streamed blocks are on the device during the call. Branches
  // use it to compute values from their parameters.
  void each_block(const std::function<void(int64_t index)>& visit) const;
  // Throws if a stream asks for other weights, products or adapters than the model has.
  void expect_own(const Stream& stream) const;
  const nn::LinearRegistry& linears() const { return *linears_; }  // by the names of diffusers' layout

  // The following functions put their results into `store`; the caller keeps store.keep() as long as they are
  // used. `places` tells where tokens lie (compact_places makes it, for example), or is empty. `riflex` is
  // that of ops::RopeTime.
  WanGrid make_grid(int64_t latent_frames, int64_t latent_height, int64_t latent_width, nn::ParamStore& store,
                    std::vector<int32_t> places = {}, int64_t riflex = 0) const;
  // `sinusoid` replaces the one of the config.
  WanTimes make_times(std::span<const double> timesteps, nn::ParamStore& store,
                      std::optional<Sinusoid> sinusoid = std::nullopt) const;
  // text [n, text_dim] f32 contains the real rows. The context has `total_rows` ≥ n; the rows after them are
  // zeros before the text MLP. image [m, image_dim] f32 is on the host or on the model's device. It is
  // undefined without the branch; in first-last-frame models the rows of the second image follow those of the
  // first.
  WanContext make_context(const Tensor& text, int64_t total_rows, const Tensor& image,
                          nn::ParamStore& store) const;

  // Allocates the memory of a video that is made block by block, with at most `most` latent frames of a grid
  // per block. A rank remembers keys and values of its `heads`; 0: of all.
  WanCausal allocate_causal(const WanWindow& window, int64_t most, int64_t rows, int64_t columns,
                            nn::ParamStore& store, int64_t heads = 0) const;
  // Begins the next block, with as many frames as `grid` (from make_grid, without places), and fills grid's
  // tables for the block's positions. The number of frames has no limit, so a session may have any length.
  // `given` contains what branches get for this block.
  void begin_block(WanCausal& causal, const WanGrid& grid, const WanExtras& given, Stream& stream) const;

  // Computes velocity [B, C_out, T, H, W] f32; of several ranks only the first one gets it. Scratch comes
  // from the stream's arena.
  void forward(const WanInput& input, const Tensor& velocity, Stream& stream) const;

 private:
  // Adds the keys and values of the context's tokens for every block.
  void add_keys(const Tensor& tokens, WanContext& context, nn::ParamStore& store) const;
  // Throws if `given` contains something for a branch that the model does not have.
  void expect_taken(const WanExtras& given) const;
  void expect_causal(const WanInput& input) const;
  // Computes x [B·own tokens, dim] from the latents' patches.
  void embed_patches(const WanInput& input, int64_t own, const Tensor& x, Stream& stream) const;
  // Runs the blocks, and leaves in block.u the norm of x for the head, which `head` modulates.
  void run_blocks(const WanInput& input, WanBlockInput& block, const WanModulation& head,
                  Stream& stream) const;
  // The same with WanInput::added: keeps what the blocks add, or adds what is kept.
  void run_or_reuse(const WanInput& input, WanBlockInput& block, const WanModulation& head,
                    Stream& stream) const;
  // Computes the velocity from u [B·own tokens, dim], which the last block left.
  void predict(const WanInput& input, int64_t own, const Tensor& u, const Tensor& velocity,
               Stream& stream) const;
  void fill_constants(const WanCausal& causal, const WanExtras& given, std::span<float> host) const;
  void load_times(const Scope& condition, nn::ParamStore& store);
  nn::RowCodes codes_for_norms(const Tensor& u, Stream& stream) const;
  WanConfig config_;
  Precision precision_;  // the precision that the weights were made for
  nn::Linear patch_embedding_, text1_, text2_, time1_, time2_, time_projection_, head_;
  WanImageEmbedding image_;
  Tensor block_tables_;  // [layers, 6·dim] f32
  Tensor head_table_;    // [2, dim] f32
  WanBranches branches_;
  std::vector<WanBlock> blocks_;
  std::shared_ptr<runtime::BlockStream> streamed_;  // null if all blocks stay where they are
  std::shared_ptr<const nn::LinearRegistry> linears_;
  const uint64_t id_;  // unique in this process, unlike an address
  std::shared_ptr<const void> mapping_;
};

}  // namespace tachy
