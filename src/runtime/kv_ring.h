// Keys and values of the last frames of a video that is made block by block, for every layer, at addresses that never change.
// A frame has a slot; a new frame takes that of the oldest one, but never a sink's: the first frames, which are kept. Attention
// does not care for the order of its keys, and the slots in use are always the first ones: nothing is moved or put together.
//
//   slot(f) = f where f < sinks, otherwise sinks + (f - sinks) mod (frames - sinks);   in use: [0, min(frames, end))
#pragma once

#include <optional>

#include "tensor/stream.h"

namespace tachy::runtime {

struct RingSlots {
  int64_t frames = 0, sinks = 0;

  // Throws where a block of so many frames would overwrite itself or a sink.
  void expect_block(int64_t block) const;
  int64_t slot(int64_t frame) const {
    return frame < sinks ? frame : sinks + (frame - sinks) % (frames - sinks);
  }
  int64_t in_use(int64_t end) const {
    return end < frames ? end : frames;
  }  // once frames [0, end) were there
};

struct KvRing {
  RingSlots slots;
  Tensor k, v;  // [layers, frames, tokens, channels] of the activations' dtype
  Tensor
      sinks_k;  // [layers, sinks, tokens, channels]: keys of the sinks as they were put; undefined where they do not move

  // Tensors of a ring in memory of the caller's: allocate(dims).
  template <class Allocate>
  static KvRing make(const RingSlots& slots, int64_t layers, int64_t tokens, int64_t channels, bool moving,
                     Allocate&& allocate) {
    KvRing ring{.slots = slots};
    ring.k = allocate({layers, slots.frames, tokens, channels});
    ring.v = allocate({layers, slots.frames, tokens, channels});
    if (moving && slots.sinks > 0) ring.sinks_k = allocate({layers, slots.sinks, tokens, channels});
    return ring;
  }

  // Where the keys of so many frames from `first` on may be made instead of being put: the rows [count·tokens, channels] of
  // their slots. Nothing where the slots are not side by side, or where sinks are among the frames whose keys are kept twice.
  std::optional<Tensor> place(int64_t layer, int64_t first, int64_t count) const;
  // Frames from `first` on take their slots: from [frames·tokens, channels], whose rows may be strided. from_k: undefined where
  // the keys were made in their place.
  void put(int64_t layer, int64_t first, const Tensor& from_k, const Tensor& from_v, Stream& stream) const;

  // What is in use when frame `end` is the next: [frames in use, tokens, channels].
  Tensor keys(int64_t layer, int64_t end) const { return k.select(0, layer).slice(0, 0, slots.in_use(end)); }
  Tensor values(int64_t layer, int64_t end) const {
    return v.select(0, layer).slice(0, 0, slots.in_use(end));
  }

  // The keys of the sinks in all layers, turned from the positions that they were put with: cos and sin
  // [sinks·tokens, channels / heads / 2]. From their first values each time, so that nothing adds up.
  void turn_sinks(const Tensor& cos, const Tensor& sin, int64_t heads, Stream& stream) const;
};

}  // namespace tachy::runtime
