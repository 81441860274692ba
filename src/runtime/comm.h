// How the ranks of one run exchange tensors. A rank runs the model's code on a device of its own, on its
// share of the work; all ranks of a communicator make the same calls in the same order. Exchanges only move
// tensors and add nothing up, so that a run has the same bits on any number of ranks.
//
// Tensors are contiguous and lie where the stream computes; an exchange is queued there like an op. In a
// measure run shapes are checked and nothing moves. ThreadComm (thread_comm.h) has ranks that are threads of
// this process, on the CPU.
#pragma once

#include <algorithm>
#include <span>

#include "tensor/stream.h"

namespace tachy::runtime {

// One rank's part of a sequence of things: [first, end).
struct Share {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};
// Shares follow one another, and their sizes differ by at most one; if there are fewer things than ranks, the
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

  // from[p] goes to rank p, and to[p] comes from there. Both lists have size() tensors of any shapes, with as
  // many bytes as the other side expects. An undefined tensor means that nothing is sent.
  void all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream);
  // Sends each rank's part to rank 0, where to[p] receives that of rank p; the other
  // ranks pass an empty list.
  void gather(const Tensor& part, std::span<const Tensor> to, Stream& stream);

 private:
  // Both get arguments that are already checked, and are never called in a measure run.
  virtual void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) = 0;
  virtual void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) = 0;
};

}  // namespace tachy::runtime
