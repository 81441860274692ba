// A sequence of equal blocks of weights of which only some stay on the device. The others lie page-locked on
// the host and pass through two slots of device memory, each copied while the blocks before it compute.
//
// Of N blocks n are streamed, the k-th being block ⌊k·N/n⌋, so that N/n blocks' compute hides each copy; it
// uses slot k mod 2. leave() begins the copy of the slot's next block (block k + 2; after the last ones the
// first two again, so that every pass ends as the next one has to begin). A pass may be captured in a graph:
// when it begins and when it ends, no copy is under way. If the overlap is perfect, a pass takes the longer
// of compute and copies. n = 3 saves one block, n = N leaves two slots.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/memory.h"
#include "tensor/streaming_memory.h"

namespace tachy::runtime {

class BlockStream {
 public:
  // slots: [2, block_bytes] u8 on the device.
  BlockStream(DeviceMemory& memory, int64_t blocks, int64_t streamed, const Tensor& slots);
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // Index of block i among the streamed ones; -1: it stays on the device.
  static int64_t rank_of(int64_t i, int64_t blocks, int64_t streamed);
  static constexpr int64_t kFewest = 3;  // fewer would save nothing

  int64_t rank(int64_t block) const { return ranks_[static_cast<size_t>(block)]; }
  char* slot(int64_t block) const;   // where it will lie
  char* image(int64_t block) const;  // where its bytes have to be put, on the host
  void loaded(int64_t block);        // call it when its bytes have been put there; it page-locks them

  // Call these for the blocks of a pass in order. Work queued between enter and leave may use the block.
  void enter(int64_t block);
  void leave(int64_t block);
  void finish();  // after the last block

 private:
  void send(int64_t rank);
  void check_arrival(int64_t rank) const;
  char* image_of_rank(int64_t rank) const;

  DeviceMemory& memory_;
  StreamingMemory& copies_;  // the same object as memory_
  int64_t streamed_;
  Tensor slots_;
  std::vector<int64_t> ranks_;
  int64_t stride_;  // distance between images: block_bytes in whole pages
  Buffer images_;   // [streamed, stride], with room to begin at a page
  // By rank: set when page-locked; holds its checksum if that is needed.
  std::vector<std::optional<uint64_t>> pinned_;
  int64_t holds_[2] = {-1, -1};  // rank of the block that a slot holds or is being sent
  bool waited_[2] = {true, true};
};

}  // namespace tachy::runtime
