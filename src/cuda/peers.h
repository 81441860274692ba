// The GPUs of this process that work on one clip: they reach each other's memory (NVLink or PCIe), push rows
// into it, and wait for each other on the device. A rank is a queue of one card; several may share a card, so
// that tests need no more than one.
//
//   barrier   each rank writes the number of the round into a flag in every other rank's memory, and waits
//             until all flags of its own have that number
//   push      rows of this rank's memory are written into another's, by a kernel or by the copy engines
//
// A barrier and the pushes before it are over together. So an exchange is a barrier (the receivers no longer use
// the memory), pushes, and another barrier (the rows are there). All of it can be captured in a graph. A wait
// on the device ends by itself after kLongestWait, or when somebody stops the group: all ranks read one word
// of the host's memory. What is computed after such a wait is worthless, and check() says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

// `rows` rows of `width` bytes, whose begins are a pitch apart.
struct PeerRows {
  void* to = nullptr;
  const void* from = nullptr;
  size_t width = 0, rows = 0, to_pitch = 0, from_pitch = 0;
  bool own = false;  // both are in the pushing rank's memory
};

class PeerGroup {
 public:
  // How rows travel: by size, or always in one way. Rows that stay on the card go by a kernel but with all_engines.
  enum class Way { by_size, kernel, engines, all_engines };
  static constexpr int kMostRanks = 16;
  static constexpr double kLongestWait = 20;  // seconds

  virtual ~PeerGroup() = default;
  virtual int size() const = 0;
  // These queue work on the rank's queue. Every rank of the group queues as many barriers.
  virtual void barrier(int rank) = 0;
  // A barrier in two parts, between which all ranks meet on the host: tell() says what the rank's queue holds now,
  // and after await_others() the queue goes on when the others have come as far as they told (peer_waits.h).
  virtual void tell(int rank) = 0;
  virtual void await_others(int rank) = 0;
  virtual void push(int rank, std::span<const PeerRows> rows, Way way = Way::by_size) = 0;
  // From here on the rank's barriers and pushes go to a queue beside its own, where they follow what its own holds
  // now; step_back() ends that, and returns a number for await(). After await() the rank's own queue goes on when
  // what was queued beside it until then is over; of the numbers the last kNumbers are good.
  static constexpr int kNumbers = 64;
  virtual void step_aside(int rank) = 0;
  virtual int step_back(int rank) = 0;
  virtual void await(int rank, int number) = 0;
  // Waits on the host until nothing is queued beside. For errors, after which nobody awaits what was queued there.
  virtual void settle() noexcept = 0;
  // Ends all waits, now and later, until restart(). Any thread may call it at any time.
  virtual void stop() noexcept = 0;
  // Throws `device` if a wait was too long, and `cancelled` if somebody stopped the group. It says what is known
  // now: a rank calls it when its queue is empty.
  virtual void check() const = 0;
  // Begins again after a stop. All queues must be empty.
  virtual void restart() = 0;
};

// Lets the GPUs reach each other's memory where they can. Afterwards join_peers() is quick, while it takes longer the more
// memory is held.
void prepare_peers(std::span<Gpu* const> gpus) noexcept;
// Begins to do the same for GPUs that nobody has opened yet, as CUDA counts them, and to make their contexts, in threads
// for which the end of what is returned waits. It can be null. Where that fails, open_gpu() says why.
std::shared_ptr<void> wake_peers(const std::vector<int>& gpus) noexcept;

// Each rank's GPU must outlive the group. Throws `unsupported` if a card cannot reach another one's memory.
std::unique_ptr<PeerGroup> join_peers(std::span<Gpu* const> ranks);

}  // namespace tachy::cuda
