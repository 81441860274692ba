#include "distributed/nccl_comm.h"

#include <vector>

#include "cuda/gpu.h"
#include "tensor/transfer.h"

namespace tachy::distributed {
namespace {

using Part = cuda::NcclRanks::Part;

int64_t bytes_of(const Tensor& t) { return t.defined() ? t.bytes() : 0; }

// Adds a tensor unless it is empty. Its owner and its receiver agree on its bytes.
void add(int peer, const Tensor& t, const Stream& stream, std::vector<Part>& parts) {
  if (bytes_of(t) == 0) return;
  const Device here = stream.memory ? stream.memory->device() : Device::cpu;
  check(t.device == here, ErrorCode::internal, "ranks: a tensor on {} is exchanged on {}",
        device_name(t.device), device_name(here));
  parts.push_back({peer, t.data, static_cast<size_t>(t.bytes())});
}

// A rank's own part is copied, unless it is there already.
void take_own(const Tensor& from, const Tensor& to, const Stream& stream) {
  check(bytes_of(from) == bytes_of(to), ErrorCode::internal,
        "ranks: {} bytes were sent where {} are expected", bytes_of(from), bytes_of(to));
  if (bytes_of(from) > 0 && from.data != to.data) copy_bytes(from, to, stream);
}

}  // namespace

void NcclComm::exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) {
  std::vector<Part> out, in;
  for (int p = 0; p < count_; ++p) {
    const Tensor &sent = from[static_cast<size_t>(p)], &wanted = to[static_cast<size_t>(p)];
    if (p == rank_)
      take_own(sent, wanted, stream);
    else
      add(first_ + p, sent, stream, out), add(first_ + p, wanted, stream, in);
  }
  ranks_.exchange(out, in, stream.gpu ? stream.gpu->stream() : nullptr, stream.hooks.cancel);
}

void NcclComm::collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) {
  std::vector<Tensor> from(static_cast<size_t>(count_)), room(static_cast<size_t>(count_));
  from[0] = part;
  if (rank_ == 0) room.assign(to.begin(), to.end());
  exchange(from, room, stream);
}

}  // namespace tachy::distributed
