// How the ranks of a run exchange tensors. Each rank runs the model's code for its share of the work on its
// own device, and all ranks of a communicator make the same calls in the same order. Exchanges move tensors
// but never add them up, so a run gives the same bits with any number of ranks.
//
// Tensors are contiguous and on the stream's device; an exchange is queued there like an op. In a measure run
// shapes are checked and nothing moves. The ranks of a ThreadComm (thread_comm.h) are threads of this
// process, on the CPU.
#pragma once

#include <algorithm>
#include <span>

#include "tensor/stream.h"

namespace tachy::runtime {

// One rank's part [first, end) of a sequence.
struct Share {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};
// Shares follow one another, and their sizes differ by at most one. If there are more ranks than things, the
// last ranks get none.
constexpr Share share_of(int64_t count, int64_t rank, int64_t ranks) {
  const int64_t each = count / ranks, more = count % ranks;
  const auto begin = [&](int64_t r) { return r * each + std::min(r, more); };
  return {begin(rank), begin(rank + 1)};
}

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends from[p] to rank p, and receives to[p] from there. Both lists have size() tensors of any shapes, as
  // long as both sides agree on the number of bytes. Nothing is sent for an undefined tensor.
  void all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream);
  // Sends each rank's part to rank 0, which receives rank p's part in to[p]. The other ranks pass an empty
  // list.
  void gather(const Tensor& part, std::span<const Tensor> to, Stream& stream);

 private:
  // Both get checked arguments, and are never called in a measure run.
  virtual void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) = 0;
  virtual void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) = 0;
};

}  // namespace tachy::runtime
