// Copies bytes between the host and the device of a stream. In a measure run nothing happens. Device tensors
// must be contiguous. For a stream on the CPU these are plain copies.
#pragma once

#include <utility>
#include <vector>

#include "tensor/stream.h"

namespace tachy {

void upload(const void* host, const Tensor& to, const Stream& stream);
void download(const Tensor& from, void* host, const Stream& stream);  // waits for work queued before
// Both tensors must be on the stream's device.
void copy_bytes(const Tensor& from, const Tensor& to, const Stream& stream);
// Copies from the host or from the device, wherever `from` lies.
void bring(const Tensor& from, const Tensor& to, const Stream& stream);
void zero(const Tensor& to, const Stream& stream);

// Runs body(host stream) on the CPU with its own arena, whose size a measure run of the same body finds. It
// is meant for values that are computed once on the host even if there is a GPU (tables, and values made from
// timesteps). Tensors that must outlive the call may not lie in this arena.
template <class Body>
void run_on_host(const Stream& stream, Body&& body) {
  Arena measure;
  Stream host{.arena = &measure,
              .pool = stream.pool,
              .without = stream.without,
              .hooks = {.cancel = stream.hooks.cancel, .hold = stream.hooks.hold},
              .adapters = stream.adapters};
  body(host);
  if (stream.measuring()) return;
  Arena arena(measure.peak(), nullptr, stream.arena->kind());
  host.arena = &arena;
  body(host);
}

// Calls body(stream, tensors), which writes the contents of `to` on the host. On the CPU it writes straight
// into `to`, with the stream's own scratch. With a GPU it writes into copies in host memory (as in
// run_on_host), which are then uploaded.
template <class Body>
void make_on_host(Stream& stream, std::initializer_list<Tensor> to, Body&& body) {
  if (!stream.gpu) return body(stream, std::span<const Tensor>(to.begin(), to.size()));
  run_on_host(stream, [&](Stream& host) {
    std::vector<Tensor> twins;
    for (const Tensor& t : to) twins.push_back(host.arena->tensor(t.dtype, t.shape()));
    body(host, std::span<const Tensor>(twins));
    if (host.measuring()) return;
    for (size_t i = 0; i < twins.size(); ++i) upload(twins[i].data, to.begin()[i], stream);
  });
}

}  // namespace tachy
