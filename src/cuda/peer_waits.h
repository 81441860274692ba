// How the ranks of a PeerGroup wait for one another on their devices, and how such waits end.
//
// In a queued pass a queue waits for CUDA's events, which the others recorded before all ranks met on the host. Such a
// wait needs no multiprocessor, and ends when that work does. In a graph it is a barrier of flags in one another's
// memory, by a kernel of one warp. Beside long attention a barrier by a kernel costs a whole call: one card places it
// first and the other one attention, so that a multiprocessor is taken until the other card's call is over
// (bench/notes/several_gpus.md).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "cuda/peer_kernels.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

class PeerWaits {
 public:
  explicit PeerWaits(std::span<Gpu* const> gpus);
  ~PeerWaits();
  PeerWaits(const PeerWaits&) = delete;
  PeerWaits& operator=(const PeerWaits&) = delete;

  // A barrier by a kernel, captured or not.
  void barrier(int rank, cudaStream_t queue);
  // tell(): others may wait for what the queue holds now. Then all ranks meet on the host. await_others(): the
  // queue goes on when the others' queues have come as far as they told.
  void tell(int rank, cudaStream_t queue);
  void await_others(int rank, cudaStream_t queue);

  void stop() noexcept;
  void check() const;
  void restart();

 private:
  const std::vector<Gpu*> gpus_;
  std::vector<Buffer> flags_;
  // Each rank records its two in turn, and none again before all wait for what it told last.
  std::vector<std::array<cudaEvent_t, 2>> told_;
  std::vector<int> turns_;
  uint32_t* stop_ = nullptr;
};

}  // namespace tachy::cuda
