// The residual block in e4m3 or int8: y = conv2(silu(norm2(conv1(silu(norm1(x)))))) + shortcut(x), where both
// convolutions read codes. Everything else in the networks keeps the activations' dtype.
//
// The scale of a convolution's x is 1/448 (int8: 1/127) of the largest value that the norm before it can reach,
// √C·max|gamma|. It follows from the weights alone, so no value saturates, and frames may come in any pieces.
// e4m3 is a floating-point format, so half the scale, from measured maxima, makes almost no difference
// (bench/notes/vae.md).
#include <cmath>
#include <utility>

#include "models/wan_vae/layers.h"
#include "ops/codes.h"
#include "ops/elementwise/elementwise.h"

namespace tachy::wan_vae {
namespace {

class CodesBlock : public Layer {
 public:
  CodesBlock(const Loader& at, int64_t ci, int64_t co)
      : norm1_(at.vector("norm1.gamma", {ci, 1, 1, 1})),
        norm2_(at.vector("norm2.gamma", {co, 1, 1, 1})),
        conv1_(at.sub("conv1"), ci, co, at.norm_scale("norm1.gamma", {ci, 1, 1, 1})),
        conv2_(at.sub("conv2"), co, co, at.norm_scale("norm2.gamma", {co, 1, 1, 1})) {
    if (ci != co)
      shortcut_ = nn::Linear::from_kernel(at.scope.sub("conv_shortcut"), at.store, {co, ci, 1, 1, 1});
  }

  const char* name() const override { return "res block"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    Arena& arena = *pass.stream.arena;
    const ArenaScope scope(arena);
    Tensor normed = pass.room;
    if (shortcut_.defined()) {
      const ProfileRange range(pass.stream.hooks.profiler, "1x1x1 shortcut", ProfileKind::linear);
      shortcut_(rows_of(x), rows_of(y), pass.stream);
      normed = arena.tensor(conv1_.codes, x.shape());
    }
    normed.dtype = conv1_.codes;  // `room` may have been made for numbers
    if (!std::exchange(pass.normed, false)) normalise(x, norm1_, true, normed, pass.stream, conv1_.scale);
    const Tensor hidden = arena.tensor(conv2_.codes, y.shape());
    conv1_.run_normed(normed, norm2_, conv2_.scale, hidden, pass);
    conv2_.run_residual(hidden, y, pass);
  }
  const Tensor* input_gamma() const override { return &norm1_; }
  float input_scale() const override { return conv1_.scale; }

 private:
  Tensor norm1_, norm2_;
  CodesConv conv1_, conv2_;
  nn::Linear shortcut_;
};

}  // namespace

bool Loader::in_codes(int64_t ci, int64_t co) const {
  const Stream& stream = store.stream();
  // A tensor core multiplies this many channels at once. Fewer would be padded, which costs more quality than
  // it saves time.
  return in_eight_bits(stream.precision.products) && ci % 32 == 0 && co % 32 == 0 &&
         ops::scaled_conv3d_runs(stream, codes_of(stream.precision));
}

float Loader::norm_scale(std::string_view gamma, std::initializer_list<int64_t> dims) const {
  const Tensor file = scope.tensor(gamma, dims);
  if (store.plan_only()) return 1;
  std::vector<float> values(static_cast<size_t>(file.numel()));
  Arena none(0);
  Stream host{.arena = &none, .pool = store.stream().pool};
  ops::widen(file.view({-1}), Tensor(values.data(), DType::f32, {file.numel()}), host);
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(v));
  const float top = ops::top_code(codes_of(store.stream().precision)),
              scale = std::sqrt(static_cast<float>(values.size())) * largest / top;
  return scale > 0 && std::isfinite(scale) ? scale : 1.0f;
}

CodesConv::CodesConv(const Loader& at, int64_t ci, int64_t co, float x_scale)
    : scale(x_scale), codes(codes_of(at.store.stream().precision)) {
  Stream& stream = at.store.stream();
  bias_ = at.vector("bias", {co});
  packed_ = at.store.allocate(DType::u8, {ops::packed_scaled_conv3d_bytes(co, ci, stream)});
  at.packing("weight", {co, ci, 3, 3, 3}, [&](const Tensor& weight) {
    if (at.packs()) ops::pack_scaled_conv3d_weight(weight, scale, packed_, stream, codes);
  });
  slot_ = at.add_slot(ci, 2, true);
}

ops::ScaledConv3dArgs CodesConv::args_of(const Tensor& x, const Pass& pass) const {
  const VaeState::Cache& cache = pass.state.caches[static_cast<size_t>(slot_)];
  return {.x = x, .cache = cache.frames, .history = cache.history, .packed = packed_, .bias = bias_};
}

void CodesConv::compute(const char* name, const ops::ScaledConv3dArgs& args, Pass& pass) const {
  exchange_rows(args.x, pass);
  ProfileRange range(pass.stream.hooks.profiler, name, ProfileKind::convolution);
  ops::scaled_conv3d(args, pass.stream);
  range.done();
  remember(slot_, args.x, pass);
}

void CodesConv::run_normed(const Tensor& x, const Tensor& gamma, float next_scale, const Tensor& y,
                           Pass& pass) const {
  ops::ScaledConv3dArgs args = args_of(x, pass);
  args.gamma = gamma, args.normed = y, args.normed_scale = next_scale;
  if (ops::scaled_conv3d_normalises(args, pass.stream)) return compute("conv 3x3x3, norm + silu", args, pass);
  const ArenaScope scope(*pass.stream.arena);
  args.y = pass.stream.arena->tensor(pass.stream.precision.activation, y.shape());
  args.gamma = args.normed = Tensor();
  compute("conv 3x3x3", args, pass);
  normalise(args.y, gamma, true, y, pass.stream, next_scale);
}

void CodesConv::run_residual(const Tensor& x, const Tensor& y, Pass& pass) const {
  ops::ScaledConv3dArgs args = args_of(x, pass);
  args.residual = y;
  if (pass.next_gamma) {
    args.gamma = *pass.next_gamma;
    args.normed = pass.next_in_place ? y : pass.room;
    if (pass.next_scale > 0) args.normed.dtype = codes, args.normed_scale = pass.next_scale;
    if (!pass.next_in_place) args.y = y;
    pass.normed = ops::scaled_conv3d_normalises(args, pass.stream);
  }
  if (!pass.normed) args.y = y, args.gamma = args.normed = Tensor();
  compute(pass.normed ? "conv 3x3x3 + residual, norm + silu" : "conv 3x3x3 + residual", args, pass);
}

LayerPtr make_codes_block(const Loader& at, int64_t ci, int64_t co) {
  return std::make_unique<CodesBlock>(at, ci, co);
}

}  // namespace tachy::wan_vae
