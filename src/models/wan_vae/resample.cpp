// Layers that halve or double space and time.
//
//   upsample:   [time_conv (3,1,1) C→2C, its halves are the earlier and the later frame]; 2x2 pixels; conv 3x3
//   downsample: zero pad right and bottom, conv 3x3 stride 2; [time_conv (3,1,1) stride 2, no padding]
//
// In time the first frame passes through unchanged. The upsampler then forgets it, so its second chunk sees
// zeros as history; the downsampler keeps it as the second chunk's history.
#include "models/wan_vae/layers.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv3d/conv3d.h"
#include "ops/elementwise/elementwise.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy::wan_vae {
namespace {

Tensor pack_time_conv(const Loader& at, const Tensor& weight) {
  const Tensor packed = at.store.allocate(
      DType::u8, {ops::packed_conv3d_bytes(weight.dim(0), weight.dim(1), 3, 1, 1, at.store.stream())});
  if (at.packs()) ops::pack_conv3d_weight(weight, packed, at.store.stream());
  return packed;
}

class Upsample : public Layer {
 public:
  Upsample(const Loader& at, int64_t ci, int64_t co, bool in_time) : in_time_(in_time) {
    packed_ = at.store.allocate(DType::u8, {ops::packed_upsample_conv2d_bytes(co, ci, at.store.stream())});
    at.packing("resample.1.weight", {co, ci, 3, 3}, [&](const Tensor& weight) {
      if (at.packs()) ops::pack_upsample_conv2d_weight(weight, packed_, at.store.stream());
    });
    bias_ = at.vector("resample.1.bias", {co});
    if (!in_time) return;
    time_bias_ = at.vector("time_conv.bias", {2 * ci});
    at.packing("time_conv.weight", {2 * ci, ci, 3, 1, 1}, [&](const Tensor& weight) {
      for (int half = 0; half < 2; ++half)
        time_packed_[half] = pack_time_conv(at, weight.slice(0, half * ci, (half + 1) * ci));
    });
    slot_ = at.add_slot(ci, 2);
  }

  const char* name() const override { return "upsample"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    ArenaScope scope(*pass.stream.arena);
    const bool doubled = in_time_ && !pass.first();
    ProfileRange part(pass.stream.hooks.profiler, "time conv", ProfileKind::convolution);
    const Tensor frames = doubled ? double_frames(x, pass) : x;
    part.next("upsample + conv 3x3", ProfileKind::convolution);
    convolve(frames, y, pass);
  }

 private:
  // A band's frames have two more rows above and below once they are doubled, and one is wanted.
  void convolve(const Tensor& frames, const Tensor& y, Pass& pass) const {
    const runtime::Bands& bands = pass.state.bands;
    exchange_rows(frames, pass);
    const Tensor doubled = bands.divided() ? pass.stream.arena->tensor(
                                                 y.dtype, {y.dim(0), 2 * frames.dim(1), y.dim(2), y.dim(3)})
                                           : y;
    ops::upsample_conv2d({.x = frames, .packed = packed_, .bias = bias_, .y = doubled}, pass.stream);
    if (bands.divided())
      ops::copy({.x = doubled.slice(1, bands.above(), bands.above() + y.dim(1)), .y = y}, pass.stream);
  }

  // Each half is computed separately and written to its place, which saves an interleaving pass.
  Tensor double_frames(const Tensor& x, Pass& pass) const {
    VaeState::Cache& cache = pass.state.caches[static_cast<size_t>(slot_)];
    const int64_t n = x.dim(0), c = x.dim(3);
    const Tensor out = pass.stream.arena->tensor(x.dtype, {2 * n, x.dim(1), x.dim(2), c});
    for (int64_t half = 0; half < 2; ++half) {
      Tensor y = out.slice(0, half, 2 * n);
      y.dims[0] = n, y.strides[0] *= 2;
      ops::causal_conv3d({.x = x,
                          .cache = cache.frames,
                          .history = cache.history,
                          .packed = time_packed_[half],
                          .kernel_h = 1,
                          .kernel_w = 1,
                          .bias = time_bias_.slice(0, half * c, (half + 1) * c),
                          .y = y},
                         pass.stream);
    }
    cache.history = ops::push_frames(cache.frames, cache.history, x, pass.stream);
    return out;
  }

  bool in_time_;
  int slot_ = -1;
  Tensor packed_, bias_, time_packed_[2], time_bias_;
};

class Downsample : public Layer {
 public:
  Downsample(const Loader& at, int64_t c, bool in_time) : in_time_(in_time) {
    packed_ = at.store.allocate(DType::u8, {ops::packed_conv2d_bytes(c, c, 3, 3, at.store.stream())});
    at.packing("resample.1.weight", {c, c, 3, 3},
               [&](const Tensor& weight) { ops::pack_conv2d_weight(weight, packed_, at.store.stream()); });
    bias_ = at.vector("resample.1.bias", {c});
    if (!in_time) return;
    at.packing("time_conv.weight", {c, c, 3, 1, 1},
               [&](const Tensor& weight) { time_packed_ = pack_time_conv(at, weight); });
    time_bias_ = at.vector("time_conv.bias", {c});
    Loader halved = at;
    ++halved.level;
    slot_ = halved.add_slot(c, 1);
  }

  const char* name() const override { return "downsample"; }
  void run(const Tensor& x, const Tensor& y, Pass& pass) const override {
    ArenaScope scope(*pass.stream.arena);
    const bool halved = in_time_ && !pass.first();
    const Tensor small =
        halved ? pass.stream.arena->tensor(x.dtype, {x.dim(0), y.dim(1), y.dim(2), y.dim(3)}) : y;
    ProfileRange part(pass.stream.hooks.profiler, "conv 3x3, stride 2", ProfileKind::convolution);
    convolve(x, small, pass);
    if (!in_time_) return;
    part.next("time conv", ProfileKind::convolution);
    VaeState::Cache& cache = pass.state.caches[static_cast<size_t>(slot_)];
    if (halved)
      ops::causal_conv3d({.x = small,
                          .cache = cache.frames,
                          .history = cache.history,
                          .front = 1,
                          .time_stride = 2,
                          .packed = time_packed_,
                          .kernel_h = 1,
                          .kernel_w = 1,
                          .bias = time_bias_,
                          .y = y},
                         pass.stream);
    if (cache.frames.defined())
      cache.history = ops::push_frames(cache.frames, cache.history, small, pass.stream);
  }

 private:
  // A band's rows need only the row below. They begin in the middle of a frame, so each frame is a call.
  void convolve(const Tensor& x, const Tensor& y, Pass& pass) const {
    const runtime::Bands& bands = pass.state.bands;
    exchange_rows(x, pass);
    ops::Conv2dArgs args{
        .x = x, .packed = packed_, .stride = 2, .pad_top = 0, .pad_left = 0, .bias = bias_, .y = y};
    if (!bands.divided()) return ops::conv2d(args, pass.stream);
    args.pad_bottom = 1 - bands.below();
    for (int64_t t = 0; t < x.dim(0); ++t) {
      args.x = x.slice(0, t, t + 1).slice(1, bands.above(), x.dim(1));
      args.y = bands.own(y.slice(0, t, t + 1));
      ops::conv2d(args, pass.stream);
    }
  }

  bool in_time_;
  int slot_ = -1;
  Tensor packed_, bias_, time_packed_, time_bias_;
};

}  // namespace

LayerPtr make_upsample(const Loader& at, int64_t ci, int64_t co, bool in_time) {
  return std::make_unique<Upsample>(at, ci, co, in_time);
}

LayerPtr make_downsample(const Loader& at, int64_t channels, bool in_time) {
  return std::make_unique<Downsample>(at, channels, in_time);
}

}  // namespace tachy::wan_vae
