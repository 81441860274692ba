// The Wan video transformer: latents, timestep and text in, flow velocity out. Covers 2.1 text-to-video and 2.2's
// per-token timesteps (TI2V-5B), at any dims; what variants have beside is their branches' (branch.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/wan/block.h"
#include "models/wan/branches/branches.h"
#include "models/wan/branches/image/image_embedding.h"
#include "nn/linear_registry.h"

namespace tachy {

// What depends on the latent grid only.
struct WanGrid {
  int64_t frames = 0, rows = 0, columns = 0;  // in tokens
  Tensor cos, sin;                            // [tokens, head_dim/2] f32, as tokens lie
  // Where the token of each frame, row and column lies; empty: in this order.
  std::vector<int32_t> places;
  Tensor place;  // the same, [tokens] i32 where the model computes; undefined where they are empty
  int64_t place_of(int64_t token) const {
    return places.empty() ? token : places[static_cast<size_t>(token)];
  }
  int64_t tokens() const { return frames * rows * columns; }
};

// The time path of R distinct timesteps, made once before the loop.
struct WanTimes {
  Tensor embedding;   // [R, dim] f32: for the head
  Tensor projection;  // [R, 6·dim] f32: for the blocks
};

struct WanInput {
  Tensor latents;  // [B, C_in, T, H, W] f32
  const WanGrid* grid = nullptr;
  WanTimes times;  // rows used by this call
  Tensor row;      // [B·tokens] i32: row of `times` of each token, as they lie; undefined: row 0
  std::vector<const WanContext*> contexts;  // B of them
  WanKeys keys = {};                  // what self-attention attends to: all, or blocks of the grid's order
  const WanCausal* causal = nullptr;  // a block of a video after those that it remembers; B is 1 then
  bool fill_only = false;  // only remember this block: velocity may be undefined, and is not written
  WanExtras given = {};    // what the model's branches are given: speech
  // The ranks that the grid's tokens are divided among (runtime::share_of); each has the whole latents and contexts. Null: one.
  runtime::Comm* comm = nullptr;
};

class WanDit {
 public:
  // Names are diffusers' (weights::dit_source maps the original ones).
  WanDit(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  const WanConfig& config() const { return config_; }
  // The model's branch of that class; null where it has none.
  template <class Branch>
  const Branch* branch() const {
    for (const auto& one : branches_)
      if (const auto* found = dynamic_cast<const Branch*>(one.get())) return found;
    return nullptr;
  }
  // visit(index) for each block in order, streamed ones while they are on the device: what branches make of their parameters.
  void each_block(const std::function<void(int64_t index)>& visit) const;
  // Throws where a stream asks for other weights, products or adapters than the model has.
  void expect_own(const Stream& stream) const;
  const nn::LinearRegistry& linears() const { return *linears_; }  // by their names in diffusers' layout

  // The following put what they make into `store`; the caller keeps store.keep() as long as it is used.
  // places: where tokens lie (compact_places, for one), or empty. riflex: ops::RopeTime's.
  WanGrid make_grid(int64_t latent_frames, int64_t latent_height, int64_t latent_width, nn::ParamStore& store,
                    std::vector<int32_t> places = {}, int64_t riflex = 0) const;
  // sinusoid: the config's unless given.
  WanTimes make_times(std::span<const double> timesteps, nn::ParamStore& store,
                      std::optional<Sinusoid> sinusoid = std::nullopt) const;
  // text [n, text_dim] f32: the real rows; the context has `total_rows` ≥ n, the others being zeros before
  // the text MLP. image [m, image_dim] f32, on the host or where the model computes (undefined without the branch; first-last-frame models: both images'
  // rows after each other).
  WanContext make_context(const Tensor& text, int64_t total_rows, const Tensor& image,
                          nn::ParamStore& store) const;

  // What a video made block by block remembers, for blocks of at most so many latent frames of a grid.
  WanCausal allocate_causal(const WanWindow& window, int64_t most, int64_t rows, int64_t columns,
                            nn::ParamStore& store) const;
  // The block that follows the one before it, as many frames as `grid` has (make_grid, without places): its tables are made
  // for their positions. Frames have no end: a session may be of any length. given: to branches, of this block.
  void begin_block(WanCausal& causal, const WanGrid& grid, const WanExtras& given, Stream& stream) const;

  // velocity [B, C_out, T, H, W] f32, of ranks on the first one alone. Scratch comes from the stream's arena.
  void forward(const WanInput& input, const Tensor& velocity, Stream& stream) const;

 private:
  // Keys and values of the context's tokens for every block.
  void add_keys(const Tensor& tokens, WanContext& context, nn::ParamStore& store) const;
  // Throws for what is given to branches that the model has not got.
  void expect_taken(const WanExtras& given) const;
  void expect_causal(const WanInput& input) const;
  // x [B·own tokens, dim] of the latents' patches.
  void embed_patches(const WanInput& input, runtime::Share own, const Tensor& x, Stream& stream) const;
  // velocity of u [B·own tokens, dim] as the last block leaves it.
  void predict(const WanInput& input, runtime::Share own, const Tensor& u, const Tensor& velocity,
               Stream& stream) const;
  void fill_constants(const WanCausal& causal, const WanExtras& given, std::span<float> host) const;
  void load_times(const Scope& condition, nn::ParamStore& store);
  nn::RowCodes codes_for_norms(const Tensor& u, Stream& stream) const;
  WanConfig config_;
  Precision precision_;  // what the weights were made for
  nn::Linear patch_embedding_, text1_, text2_, time1_, time2_, time_projection_, head_;
  WanImageEmbedding image_;
  Tensor block_tables_;  // [layers, 6·dim] f32
  Tensor head_table_;    // [2, dim] f32
  WanBranches branches_;
  std::vector<WanBlock> blocks_;
  std::shared_ptr<runtime::BlockStream> streamed_;  // null: all blocks stay where they are
  std::shared_ptr<const nn::LinearRegistry> linears_;
  std::shared_ptr<const void> mapping_;
};

}  // namespace tachy
