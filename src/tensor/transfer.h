// Bytes between the host and wherever a stream computes. In a measure run nothing happens. Device tensors
// must be contiguous. On the CPU a transfer is a plain copy.
#pragma once

#include <utility>

#include "tensor/memory.h"

namespace tachy {

void upload(const void* host, const Tensor& to, const Stream& stream);
void download(const Tensor& from, void* host, const Stream& stream);  // waits for what was queued before
void copy_bytes(const Tensor& from, const Tensor& to,
                const Stream& stream);  // both where the stream computes
void zero(const Tensor& to, const Stream& stream);

// Runs body(host stream) on the CPU with an arena of its own, whose size a
// measure run of the same body tells: for what is computed once beside a
// GPU (the time path, tables). Tensors that body keeps are its own matter.
template <class Body>
void run_on_host(const Stream& stream, Body&& body) {
  Arena measure;
  Stream host{.arena = &measure, .pool = stream.pool, .cancel = stream.cancel};
  body(host);
  if (stream.measuring()) return;
  Arena arena(measure.peak());
  host.arena = &arena;
  body(host);
}

}  // namespace tachy
