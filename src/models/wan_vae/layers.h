// The layers of the VAE's networks, for channels-last f32 activations [T, H, W, C].
//
// A layer computes y from x. If their shapes are equal, network.cpp passes the same tensor twice and the
// layer works in place; otherwise it may use x as scratch, since nobody reads x afterwards. Layers that look
// back in time own a slot of the state, found by its index. On the first chunk, which is one frame,
// resampling in time is skipped.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/wan_vae/wan_vae.h"
#include "nn/linear.h"
#include "ops/conv3d/conv3d.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"

namespace tachy::wan_vae {

// The dtype of the codes that the convolutions after norms multiply in 8 bits.
inline DType codes_of(const Precision& precision) {
  return precision.products == Products::int8 ? DType::i8 : DType::f8_e4m3;
}

// Shape of one cache: frames x (input size shifted by level) x channels. A convolution in 8 bits keeps codes.
struct Slot {
  int64_t channels, frames;
  int level;
  bool codes = false;
};

// Where a layer's tensors come from, and where its memory is allocated.
struct Loader {
  Scope scope;
  nn::ParamStore& store;
  std::vector<Slot>& slots;
  int level = 0;  // the level of the layer's input

  Loader sub(std::string_view name) const { return {scope.sub(name), store, slots, level}; }
  int add_slot(int64_t channels, int64_t frames, bool codes = false) const;
  // Says whether a convolution after a norm computes in 8 bits here. Its x then has the scale
  // norm_scale(gamma).
  bool in_codes(int64_t ci, int64_t co) const;
  float norm_scale(std::string_view gamma, std::initializer_list<int64_t> dims) const;
  Tensor vector(std::string_view name, std::initializer_list<int64_t> dims) const;  // f32 [dims[0]]
  // Calls `pack` with a convolution's weight, from which it makes its own form. A derived weight exists, in
  // float32, only during this call. It has no values when planning, or in a copy of another device's network, whose
  // forms are not made but copied (packs()).
  void packing(std::string_view name, std::initializer_list<int64_t> dims,
               const std::function<void(const Tensor& weight)>& pack) const;
  bool packs() const { return !store.copies(); }
};

// For a clip of which a chunk's frames, and all before them that matter, are equal: the layers that work at the full
// rate in time then give the same for chunk after chunk.
struct SteadyPart {
  Tensor output;       // of the first layer that halves time
  bool keeps = false;  // a later chunk takes the output
  bool taken = false;  // this chunk takes it, and the layers before it do not run
};

// One pass of a chunk through a network.
struct Pass {
  Stream& stream;
  VaeState& state;
  std::vector<Tensor> saved;  // block inputs that shortcuts add later, by id

  // A convolution applies the next layer's norm to its result if it can, which saves a pass over memory.
  Tensor room;  // where the current layer writes its normed y, as numbers or codes
  // Gamma of the next layer's norm (with silu). The next layer reads `room`, or y itself.
  const Tensor* next_gamma = nullptr;
  float next_scale = 0;        // scale of the codes that it reads; 0 if it reads numbers
  bool next_in_place = false;  // it reads only the norm
  bool normed = false;         // whether the previous layer has normed its result
  SteadyPart steady;
  bool first() const { return state.next_frame == 0; }
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual void run(const Tensor& x, const Tensor& y, Pass& pass) const = 0;
  virtual const char* name() const = 0;  // name of its range in a profile
  // Gamma of the norm, with silu, with which the layer begins.
  virtual const Tensor* input_gamma() const { return nullptr; }
  // Scale of the codes that it takes as this norm's result; 0 if it takes numbers.
  virtual float input_scale() const { return 0; }
  // Says whether it reads x itself, and not only its norm.
  virtual bool needs_input() const { return true; }
};
using LayerPtr = std::unique_ptr<Layer>;

// A causal 3x3x3 convolution with its cache.
struct CausalConv {
  Tensor packed, bias;
  int slot = -1;

  CausalConv() = default;
  CausalConv(const Loader& at, int64_t ci, int64_t co);  // weight and bias are at `at`
  // Leaves out the weight, which pack() gets later (in the caller's scratch on the host), except when
  // planning.
  CausalConv(const Loader& at, int64_t ci, int64_t co, const Tensor& bias);
  void pack(const Tensor& weight, Stream& stream) const;
  void run(const Tensor& x, const Tensor& y, Pass& pass) const;
  // y = silu(norm(conv(x))), in one pass if the convolution can do that.
  void run_normed(const Tensor& x, const Tensor& gamma, const Tensor& y, Pass& pass) const;
  // Computes y += conv(x), and then prepares the next layer's input as `pass` says.
  void run_residual(const Tensor& x, const Tensor& y, Pass& pass) const;

 private:
  ops::CausalConv3dArgs args_of(const Tensor& x, const Tensor& y, const Pass& pass) const;
};

// A convolution like this in 8 bits (ops/scaled_conv3d), after a norm: its x and its cache hold codes of the
// norm.
struct CodesConv {
  float scale = 0;  // scale of x
  DType codes;      // their dtype

  CodesConv(const Loader& at, int64_t ci, int64_t co, float scale);
  // Computes y = silu(norm(conv(x))) as codes with next_scale.
  void run_normed(const Tensor& x, const Tensor& gamma, float next_scale, const Tensor& y, Pass& pass) const;
  // Computes y += conv(x), and then prepares the next layer's input as `pass` says.
  void run_residual(const Tensor& x, const Tensor& y, Pass& pass) const;

 private:
  ops::ScaledConv3dArgs args_of(const Tensor& x, const Pass& pass) const;
  void compute(const char* range, const ops::ScaledConv3dArgs& args, Pass& pass) const;

  Tensor packed_, bias_;
  int slot_ = -1;
};

// Computes y = norm(x), or silu of this. y holds numbers, or codes with the given scale.
void normalise(const Tensor& x, const Tensor& gamma, bool silu, const Tensor& y, Stream& stream,
               float scale = 1);
// Gets the rows of x that the neighbours have, if there are several ranks.
void exchange_rows(const Tensor& x, Pass& pass);
// Keeps the last frames of x in the cache of `slot`.
void remember(int slot, const Tensor& x, Pass& pass);
inline Tensor rows_of(const Tensor& x) { return x.view({-1, x.dim(-1)}); }

LayerPtr make_pointwise(nn::Linear linear);                    // 1x1x1
LayerPtr make_conv(const Loader& at, int64_t ci, int64_t co);  // 3x3x3
LayerPtr make_res_block(const Loader& at, int64_t ci, int64_t co);
LayerPtr make_codes_block(const Loader& at, int64_t ci, int64_t co);  // a residual block in 8 bits
LayerPtr make_attention(const Loader& at, int64_t channels);
LayerPtr make_upsample(const Loader& at, int64_t ci, int64_t co, bool in_time);
LayerPtr make_downsample(const Loader& at, int64_t channels, bool in_time);
LayerPtr make_head(Tensor gamma, CausalConv conv);  // norm, silu, 3x3x3

// Wan2.2's shortcuts without weights: `save` keeps a block's input, and the others add it to the block's
// output.
struct ShortcutShape {
  int64_t ci, co;
  int64_t time_factor, space_factor;
};
LayerPtr make_save(int id);
LayerPtr make_add_averaged(int id, const ShortcutShape& shape);    // AvgDown3D
LayerPtr make_add_duplicated(int id, const ShortcutShape& shape);  // DupUp3D

}  // namespace tachy::wan_vae
