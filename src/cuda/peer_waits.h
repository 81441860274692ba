// How the ranks of a PeerGroup wait for one another on their devices, and how such waits end.
//
//   kernel   a barrier of flags in one another's memory, by one warp
//   room     the same, on a multiprocessor that attention may use meanwhile
//   events   a queue waits for what the others recorded before the ranks met on the host. It needs no
//            multiprocessor, and each wait ends when that work does; in a graph it is `room`
//   marks    flags that the queues themselves write and wait for, without a multiprocessor
//
// TACHY_RANK_WAITS picks one, to compare them.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "cuda/peer_kernels.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

class PeerWaits {
 public:
  PeerWaits(std::span<Gpu* const> gpus, Waits waits);
  ~PeerWaits();
  PeerWaits(const PeerWaits&) = delete;
  PeerWaits& operator=(const PeerWaits&) = delete;

  // A barrier by a kernel, whatever was picked.
  void barrier(int rank, cudaStream_t queue);
  // tell(): others may wait for what the queue holds now. Then all ranks meet on the host. await_others(): the
  // queue goes on when the others' queues have come as far as they told.
  void tell(int rank, cudaStream_t queue);
  void await_others(int rank, cudaStream_t queue);
  // Remembers a queue that may wait.
  void watch(cudaStream_t queue) { watched_.push_back(queue); }

  void stop() noexcept;
  void check() const;
  void restart();

 private:
  enum class Way { kernel, room, events, marks };
  static Way asked();
  BarrierPlan plan_of(int rank) const;
  bool busy() const noexcept;

  const Way way_;
  const std::vector<Gpu*> gpus_;
  std::vector<Buffer> flags_;
  std::vector<std::array<cudaEvent_t, 2>> told_;  // of each rank and turn
  std::vector<int> turns_;
  std::vector<cudaStream_t> watched_, releasing_;
  uint32_t* stop_ = nullptr;
};

}  // namespace tachy::cuda
