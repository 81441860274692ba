// Bytes between the host and wherever a stream computes. In a measure run nothing happens. Device tensors
// must be contiguous. On the CPU a transfer is a plain copy.
#pragma once

#include <utility>
#include <vector>

#include "tensor/stream.h"

namespace tachy {

void upload(const void* host, const Tensor& to, const Stream& stream);
void download(const Tensor& from, void* host, const Stream& stream);  // waits for what was queued before
void copy_bytes(const Tensor& from, const Tensor& to,
                const Stream& stream);  // both where the stream computes
void bring(const Tensor& from, const Tensor& to,
           const Stream& stream);  // from the host or from there: the tensor says where it lies
void zero(const Tensor& to, const Stream& stream);

// Runs body(host stream) on the CPU with an arena of its own, whose size a
// measure run of the same body tells: for what is computed once beside a
// GPU (the time path, tables). Tensors that body keeps are its own matter.
template <class Body>
void run_on_host(const Stream& stream, Body&& body) {
  Arena measure;
  Stream host{.arena = &measure,
              .pool = stream.pool,
              .without = stream.without,
              .hooks = {.cancel = stream.hooks.cancel},
              .adapters = stream.adapters};
  body(host);
  if (stream.measuring()) return;
  Arena arena(measure.peak(), nullptr, stream.arena->kind());
  host.arena = &arena;
  body(host);
}

// body(stream, tensors) writes what `to` will hold, on the host: straight into `to` where the stream computes
// there, with its own scratch; beside a GPU into twins of it, as run_on_host does, which are then uploaded.
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
