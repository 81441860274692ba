// Residual block and head: layers that keep the resolution (with attention.cpp).
//   residual:  y = conv2(silu(norm2(conv1(silu(norm1(x)))))) + shortcut(x)
#include "models/wan_vae/layers.h"

#include <utility>

#include "ops/channel_norm/channel_norm.h"
#include "ops/conv3d/conv3d.h"

namespace tachy::wan_vae {
namespace {

class Pointwise : public Layer {
 public:
  explicit Pointwise(nn::Linear linear) : linear_(std::move(linear)) {}
  const char* name() const override { return "1x1x1"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    const ProfileRange range(pass.stream.hooks.profiler, "product", ProfileKind::linear);
    linear_(rows_of(x), rows_of(y), pass.stream);
  }

 private:
  nn::Linear linear_;
};

class Conv : public Layer {
 public:
  Conv(const Loader& at, int64_t ci, int64_t co) : conv_(at, ci, co) {}
  const char* name() const override { return "conv"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override { conv_.run(x, y, pass); }

 private:
  CausalConv conv_;
};

class ResBlock : public Layer {
 public:
  ResBlock(const Loader& at, int64_t ci, int64_t co)
      : norm1_(at.vector("norm1.gamma", {ci, 1, 1, 1})),
        norm2_(at.vector("norm2.gamma", {co, 1, 1, 1})),
        conv1_(at.sub("conv1"), ci, co),
        conv2_(at.sub("conv2"), co, co) {
    if (ci != co)
      shortcut_ = nn::Linear::from_kernel(at.scope.sub("conv_shortcut"), at.store, {co, ci, 1, 1, 1});
  }

  const char* name() const override { return "res block"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    ArenaScope scope(*pass.stream.arena);
    Tensor normed = x;  // if there is a shortcut, x is free after its projection into y
    if (shortcut_.defined()) {
      const ProfileRange range(pass.stream.hooks.profiler, "1x1x1 shortcut", ProfileKind::linear);
      shortcut_(rows_of(x), rows_of(y), pass.stream);
    } else {
      normed = pass.room;
    }
    if (!std::exchange(pass.normed, false)) normalise(x, norm1_, true, normed, pass.stream);
    const Tensor hidden = pass.stream.arena->tensor(y.dtype, y.shape());
    conv1_.run_normed(normed, norm2_, hidden, pass);
    conv2_.run_residual(hidden, y, pass);
  }
  const Tensor* input_gamma() const override { return &norm1_; }

 private:
  Tensor norm1_, norm2_;
  CausalConv conv1_, conv2_;
  nn::Linear shortcut_;
};

class Head : public Layer {
 public:
  Head(Tensor gamma, CausalConv conv) : gamma_(gamma), conv_(std::move(conv)) {}
  const char* name() const override { return "head"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    if (!std::exchange(pass.normed, false)) normalise(x, gamma_, true, x, pass.stream);
    conv_.run(x, y, pass);
  }
  const Tensor* input_gamma() const override { return &gamma_; }
  bool needs_input() const override { return false; }

 private:
  Tensor gamma_;
  CausalConv conv_;
};

}  // namespace

void normalise(const Tensor& x, const Tensor& gamma, bool silu, const Tensor& y, Stream& stream,
               float scale) {
  const ProfileRange range(stream.hooks.profiler, silu ? "norm + silu" : "norm", ProfileKind::norm);
  ops::channel_norm({.x = rows_of(x), .gamma = gamma, .silu = silu, .y = rows_of(y), .y_scale = scale},
                    stream);
}

void exchange_rows(const Tensor& x, Pass& pass) {
  if (!pass.state.bands.divided()) return;
  pass.state.bands.line_up(pass.stream);
  const ProfileRange range(pass.stream.hooks.profiler, "neighbours' rows", ProfileKind::other);
  pass.state.bands.exchange(x, pass.stream);
}

void remember(int slot, const Tensor& x, Pass& pass) {
  const ProfileRange range(pass.stream.hooks.profiler, "cache update", ProfileKind::cache);
  VaeState::Cache& cache = pass.state.caches[static_cast<size_t>(slot)];
  if (cache.frames.defined()) cache.history = ops::push_frames(cache.frames, cache.history, x, pass.stream);
}

int Loader::add_slot(int64_t channels, int64_t frames, bool codes) const {
  slots.push_back({channels, frames, level, codes});
  return static_cast<int>(slots.size()) - 1;
}

Tensor Loader::vector(std::string_view name, std::initializer_list<int64_t> dims) const {
  return store.widened(scope.tensor(name, dims)).view({-1});
}

void Loader::packing(std::string_view name, std::initializer_list<int64_t> dims,
                     const std::function<void(const Tensor& weight)>& pack) const {
  const auto derived = scope.derived(name, dims);
  if (!derived) return pack(scope.tensor(name, dims));
  Tensor weight(nullptr, DType::f32, dims);
  std::unique_ptr<float[]> values;
  if (!store.plan_only() && packs()) {
    values = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(weight.numel()));
    weight.data = values.get();
    nn::decode_weight({weight.view({weight.dim(0), -1}), derived}, 0, weight, *store.stream().pool);
  }
  pack(weight);
}

CausalConv::CausalConv(const Loader& at, int64_t ci, int64_t co)
    : CausalConv(at, ci, co, at.vector("bias", {co})) {
  at.packing("weight", {co, ci, 3, 3, 3}, [&](const Tensor& weight) {
    if (at.packs()) pack(weight, at.store.stream());
  });
}

CausalConv::CausalConv(const Loader& at, int64_t ci, int64_t co, const Tensor& bias_) : bias(bias_) {
  packed = at.store.allocate(DType::u8, {ops::packed_conv3d_bytes(co, ci, 3, 3, 3, at.store.stream())});
  slot = at.add_slot(ci, 2);
}

void CausalConv::pack(const Tensor& weight, Stream& stream) const {
  ops::pack_conv3d_weight(weight, packed, stream);
}

ops::CausalConv3dArgs CausalConv::args_of(const Tensor& x, const Tensor& y, const Pass& pass) const {
  const VaeState::Cache& cache = pass.state.caches[static_cast<size_t>(slot)];
  return {.x = x, .cache = cache.frames, .history = cache.history, .packed = packed, .bias = bias, .y = y};
}

void CausalConv::run(const Tensor& x, const Tensor& y, Pass& pass) const {
  exchange_rows(x, pass);
  ProfileRange range(pass.stream.hooks.profiler, "conv 3x3x3", ProfileKind::convolution);
  ops::causal_conv3d(args_of(x, y, pass), pass.stream);
  range.done();
  remember(slot, x, pass);
}

void CausalConv::run_normed(const Tensor& x, const Tensor& gamma, const Tensor& y, Pass& pass) const {
  ops::CausalConv3dArgs args = args_of(x, y, pass);
  args.gamma = gamma;
  if (!ops::causal_conv3d_normalises(args, pass.stream)) {
    run(x, y, pass);
    return normalise(y, gamma, true, y, pass.stream);
  }
  exchange_rows(x, pass);
  ProfileRange range(pass.stream.hooks.profiler, "conv 3x3x3, norm + silu", ProfileKind::convolution);
  ops::causal_conv3d(args, pass.stream);
  range.done();
  remember(slot, x, pass);
}

void CausalConv::run_residual(const Tensor& x, const Tensor& y, Pass& pass) const {
  ops::CausalConv3dArgs args = args_of(x, y, pass);
  args.residual = y;
  if (pass.next_gamma && pass.next_scale == 0) {
    args.gamma = *pass.next_gamma;
    if (!pass.next_in_place) args.normed = pass.room;
    pass.normed = ops::causal_conv3d_normalises(args, pass.stream);
    if (!pass.normed) args.gamma = args.normed = Tensor();
  }
  exchange_rows(x, pass);
  ProfileRange range(pass.stream.hooks.profiler,
                     pass.normed ? "conv 3x3x3 + residual, norm + silu" : "conv 3x3x3 + residual",
                     ProfileKind::convolution);
  ops::causal_conv3d(args, pass.stream);
  range.done();
  remember(slot, x, pass);
}

LayerPtr make_pointwise(nn::Linear linear) { return std::make_unique<Pointwise>(std::move(linear)); }
LayerPtr make_conv(const Loader& at, int64_t ci, int64_t co) { return std::make_unique<Conv>(at, ci, co); }
LayerPtr make_res_block(const Loader& at, int64_t ci, int64_t co) {
  if (at.in_codes(ci, co)) return make_codes_block(at, ci, co);
  return std::make_unique<ResBlock>(at, ci, co);
}
LayerPtr make_head(Tensor gamma, CausalConv conv) { return std::make_unique<Head>(gamma, std::move(conv)); }

}  // namespace tachy::wan_vae
