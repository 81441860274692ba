// How the ranks of one run exchange tensors. A rank runs the model's code on a device of its own, on its share of
// the work; all ranks of a communicator make the same calls in the same order. Tensors only move: no exchange adds up
// anything, so that a run has the same bits on any number of ranks.
//
// Tensors are contiguous and lie where the stream computes; an exchange is queued there like an op. In a measure run
// shapes are checked and nothing moves. ThreadComm (thread_comm.h) has ranks that are threads of this process, on the CPU.
#pragma once

#include <algorithm>
#include <span>

#include "tensor/stream.h"

namespace tachy::runtime {

// One rank's part of things that lie in a row: [first, end).
struct Share {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};
// Shares follow one another and differ by one at most; where there are fewer things than ranks, the last ranks have none.
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

  // from[p] goes to rank p, and to[p] comes from there: size() tensors each, of any shapes, as many bytes as the other
  // side expects. Undefined tensors stand for nothing.
  void all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream);
  // Each rank's part to rank 0, whose to[p] is what rank p gives; the others give an empty list.
  void gather(const Tensor& part, std::span<const Tensor> to, Stream& stream);

 private:
  // Both are given checked arguments; never in a measure run.
  virtual void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) = 0;
  virtual void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) = 0;
};

}  // namespace tachy::runtime
