// The keys and values of the last frames of a video that is made block by block, for every layer, at fixed
// addresses. Each frame has a slot. A new frame takes the slot of the oldest one that is not a sink. The
// sinks are the video's first frames, which are kept. Attention does not depend on the order of keys, and the
// slots in use are always the first ones, so nothing has to be moved or joined.
//
//   slot(f) = f where f < sinks, otherwise sinks + (f - sinks) mod (frames - sinks);   in use: [0, min(frames, end))
#pragma once

#include <optional>

#include "tensor/stream.h"

namespace tachy::runtime {

struct RingSlots {
  int64_t frames = 0, sinks = 0;

  // Throws if a block of this many frames would overwrite itself or a sink.
  void expect_block(int64_t block) const;
  int64_t slot(int64_t frame) const {
    return frame < sinks ? frame : sinks + (frame - sinks) % (frames - sinks);
  }
  // Returns the number of slots in use after frames [0, end).
  int64_t in_use(int64_t end) const { return end < frames ? end : frames; }
};

struct KvRing {
  RingSlots slots;
  Tensor k, v;  // [layers, frames, tokens, channels] of the activations' dtype
  // [layers, sinks, tokens, channels]: the sinks' keys before they were turned; undefined if sinks do not
  // move.
  Tensor sinks_k;

  // Makes a ring whose tensors the caller allocates: allocate(dims).
  template <class Allocate>
  static KvRing make(const RingSlots& slots, int64_t layers, int64_t tokens, int64_t channels, bool moving,
                     Allocate&& allocate) {
    KvRing ring{.slots = slots};
    ring.k = allocate({layers, slots.frames, tokens, channels});
    ring.v = allocate({layers, slots.frames, tokens, channels});
    if (moving && slots.sinks > 0) ring.sinks_k = allocate({layers, slots.sinks, tokens, channels});
    return ring;
  }

  // Returns the slots of `count` frames from `first` on, as rows [count·tokens, channels], so that keys can
  // be computed directly in them without put(). Returns nothing if the slots are not adjacent, or if some of
  // the frames are sinks, whose keys are kept twice.
  std::optional<Tensor> place(int64_t layer, int64_t first, int64_t count) const;
  // Copies frames from `first` on into their slots, from [frames·tokens, channels], whose rows may be
  // strided. Leave from_k undefined if the keys were computed in place.
  void put(int64_t layer, int64_t first, const Tensor& from_k, const Tensor& from_v, Stream& stream) const;

  // The keys and values in use before frame `end`: [frames in use, tokens, channels].
  Tensor keys(int64_t layer, int64_t end) const { return k.select(0, layer).slice(0, 0, slots.in_use(end)); }
  Tensor values(int64_t layer, int64_t end) const {
    return v.select(0, layer).slice(0, 0, slots.in_use(end));
  }

  // Turns the sinks' keys in all layers, starting from the original keys each time so that errors do not add
  // up. cos and sin are [sinks·tokens, channels / heads / 2].
  void turn_sinks(const Tensor& cos, const Tensor& sin, int64_t heads, Stream& stream) const;
};

}  // namespace tachy::runtime
