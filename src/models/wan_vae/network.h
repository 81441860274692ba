// A network is a list of groups of layers: a layer that changes the shape, then layers that work in place.
//
// The caller of a group first allocates the group's output and then everything else, so that
//   peak = output of the widest group + the larger of (its own scratch, the peak of what comes before it):
// an activation that has been consumed never takes memory together with the next resolution's scratch.
#pragma once

#include "models/wan_vae/layers.h"

namespace tachy::wan_vae {

class Network {
 public:
  // With `up` (decoder), sizes are input << level; with `down` (encoder), they are input >> level.
  enum class Direction { up, down };

  // The store is used until finish(), which takes its memory.
  Network(Direction direction, nn::ParamStore& store)
      : direction_(direction), store_(&store), precision_(store.stream().precision) {}

  // These build the network, in the order of execution.
  Loader at(const Scope& scope) { return {scope, *store_, slots_, level_}; }
  void change(LayerPtr layer, int64_t channels, int levels = 0, bool in_time = false);  // starts a group
  void keep_shape(LayerPtr layer) { groups_.back().layers.push_back(std::move(layer)); }
  void res_block(const Loader& loader, int64_t ci, int64_t co);
  int save();                              // keeps the current activation for a shortcut
  void add_saved(int id, LayerPtr layer);  // adds it to the current activation
  void finish(const Scope& scope, int64_t input_frames_multiple);

  size_t buffer_bytes() const { return buffer_bytes_; }
  const std::shared_ptr<const nn::KeptParams>& memory() const { return memory_; }

  // With `single`, the clip is one chunk of one frame, and nothing is remembered. Ranks that exchange views have room for
  // the rows of `chunk` latent frames at a time.
  VaeState make_state(int64_t height, int64_t width, bool single, const Stream& stream,
                      const runtime::Bands& bands = {}, int64_t chunk = 1) const;
  size_t state_bytes(int64_t height, int64_t width, bool single, int ranks = 1) const;
  // The most bytes of a row of all frames of a chunk of one latent frame, before any layer.
  size_t row_bytes(int64_t width) const;
  // The rows of the coarsest picture, between which bands are cut.
  int64_t units(int64_t height) const { return direction_ == Direction::up ? height : height >> level_; }

  // Runs the next chunk, x [n, H, W, C] → y, whose shape is output_dims(), and advances the state.
  // If `steady` is taken, only the shape of x is read.
  void run(const Tensor& x, const Tensor& y, VaeState& state, Stream& stream,
           const SteadyPart& steady = {}) const;
  // The shape of SteadyPart::output for chunks of `frames` frames; empty if there is no such part.
  std::vector<int64_t> steady_dims(const VaeState& state, int64_t frames) const;
  std::vector<int64_t> output_dims(const VaeState& state, int64_t frames) const;

 private:
  struct Group {
    std::vector<LayerPtr> layers;
    int64_t channels;
    int level, time_level;
    std::vector<int> saves;  // saves that have their memory in this group, which adds them at its end
  };
  struct Save {
    int64_t channels;
    int level, time_level;
  };

  int64_t scaled(int64_t extent, int level) const {
    return direction_ == Direction::up ? extent << level : extent >> level;
  }
  std::vector<int64_t> dims(const VaeState& state, int64_t frames, int64_t channels, int level,
                            int time_level) const;
  DType room_dtype(const Group& group) const;
  void run_group(size_t index, const Tensor& x, const Tensor& y, Pass& pass, int64_t frames) const;

  Direction direction_;
  nn::ParamStore* store_;
  std::shared_ptr<const void> mapping_;
  std::shared_ptr<const nn::KeptParams> memory_;
  size_t buffer_bytes_ = 0;
  bool planned_ = false;
  Precision precision_;  // the precision that the weights were made for
  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::vector<Save> saves_;
  int level_ = 0, time_level_ = 0;
  int64_t frames_multiple_ = 1;
  size_t steady_ = 0;  // the group of the first layer that halves time; 0: none
};

}  // namespace tachy::wan_vae
