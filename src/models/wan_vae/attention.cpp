// The attention in the middle of the networks: y = x + proj(softmax(q·kᵀ/√C)·v), one head, per frame. If the
// rows are divided among ranks, each gets the keys and values of all of them.
#include "ops/attention/attention.h"

#include <cmath>
#include <utility>

#include "models/wan_vae/layers.h"
#include "ops/elementwise/elementwise.h"

namespace tachy::wan_vae {
namespace {

class Attention : public Layer {
 public:
  Attention(const Loader& at, int64_t c)
      : norm_(at.vector("norm.gamma", {c, 1, 1})),
        to_qkv_(nn::Linear::from_kernel(at.scope.sub("to_qkv"), at.store, {3 * c, c, 1, 1})),
        proj_(nn::Linear::from_kernel(at.scope.sub("proj"), at.store, {c, c, 1, 1})) {}

  const char* name() const override { return "attention block"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    const int64_t frames = x.dim(0), tokens = x.dim(1) * x.dim(2), c = x.dim(3);
    ArenaScope scope(*pass.stream.arena);
    const Tensor mixed = pass.stream.arena->tensor(x.dtype, {frames, tokens, 1, c});
    const Tensor qkv = pass.stream.arena->tensor(x.dtype, {frames, tokens, 3, c});
    normalise(x, norm_, false, mixed, pass.stream);
    ProfileRange part(pass.stream.hooks.profiler, "q, k, v", ProfileKind::linear);
    to_qkv_(rows_of(mixed), qkv.view({-1, 3 * c}), pass.stream);
    part.next("attention", ProfileKind::attention);
    attend(qkv, mixed, x.dim(2), pass);
    part.next("out + residual", ProfileKind::linear);
    proj_(rows_of(mixed), rows_of(y), pass.stream, {.residual = rows_of(x)});
  }

 private:
  // A band's queries attend to the keys of all rows. The networks attend where the picture is coarsest.
  void attend(const Tensor& qkv, const Tensor& mixed, int64_t width, Pass& pass) const {
    const runtime::Bands& bands = pass.state.bands;
    const int64_t frames = qkv.dim(0), c = qkv.dim(3), own = bands.above() * width,
                  end = qkv.dim(1) - bands.below() * width;
    const ArenaScope scope(*pass.stream.arena);
    Tensor keys = qkv.slice(2, 1, 3);
    if (bands.divided()) {
      const int64_t all = bands.units(), band = (end - own) / width;
      const Tensor mine = pass.stream.arena->tensor(qkv.dtype, {frames, band, width, 2 * c}),
                   whole = pass.stream.arena->tensor(qkv.dtype, {frames, all, width, 2 * c});
      ops::copy({.x = keys.slice(1, own, end), .y = mine.view({frames, band * width, 2, c})}, pass.stream);
      bands.line_up(pass.stream);
      const ProfileRange range(pass.stream.hooks.profiler, "keys of all rows", ProfileKind::other);
      bands.share(mine, whole, pass.stream);
      keys = whole.view({frames, all * width, 2, c});
    }
    ops::attention({.q = qkv.slice(1, own, end).slice(2, 0, 1),
                    .k = keys.slice(2, 0, 1),
                    .v = keys.slice(2, 1, 2),
                    .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c))),
                    .out = mixed.slice(1, own, end)},
                   pass.stream);
  }

  Tensor norm_;
  nn::Linear to_qkv_, proj_;
};

}  // namespace

LayerPtr make_attention(const Loader& at, int64_t channels) {
  return std::make_unique<Attention>(at, channels);
}

}  // namespace tachy::wan_vae
