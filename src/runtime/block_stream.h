// A sequence of equal blocks of weights, only some of which stay on the device. The others lie page-locked on
// the host and pass through two slots of device memory. Each is copied while the blocks before it compute.
//
// If n of N blocks are streamed, the k-th of them is block ⌊k·N/n⌋, so that the work of N/n blocks hides each
// copy. It uses slot k mod 2. leave() begins the copy of the slot's next block, k + 2. After the last blocks
// it copies the first two again, so that a pass ends in the state in which the next one begins. A pass may be
// captured in a graph, because no copy is under way when it begins or ends. With perfect overlap, a pass
// takes the longer of compute and copies. n = 3 saves the memory of one block; n = N leaves only two slots.
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

  // Returns the index of block i among the streamed ones, or -1 if it stays on the device.
  static int64_t rank_of(int64_t i, int64_t blocks, int64_t streamed);
  static constexpr int64_t kFewest = 3;  // fewer would save nothing

  int64_t rank(int64_t block) const { return ranks_[static_cast<size_t>(block)]; }
  char* slot(int64_t block) const;   // the block's place on the device
  char* image(int64_t block) const;  // where the caller puts its bytes on the host
  void loaded(int64_t block);        // call this when its bytes are complete; it page-locks them

  // Call these in order for the blocks of a pass. Work that is queued between enter and leave may use the
  // block.
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
  int64_t stride_;  // distance between images: block_bytes rounded up to whole pages
  Buffer images_;   // [streamed, stride], plus room to begin at a page
  // By rank: set once the image is page-locked, and then its checksum if that is needed.
  std::vector<std::optional<uint64_t>> pinned_;
  int64_t holds_[2] = {-1, -1};  // rank of the block in each slot or on its way there
  bool waited_[2] = {true, true};
};

}  // namespace tachy::runtime
