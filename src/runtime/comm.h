// How the ranks of one run exchange tensors. A rank runs the model's code on a device of its own, on its share of
// the work; all ranks make the same calls in the same order. Only the local communicator exists: one rank, whose
// exchanges are a copy, or nothing where source and target are the same.
//
// Tensors are contiguous and lie where the stream computes; an exchange is queued there like an op, also in a
// captured graph. In a measure run shapes are checked and nothing moves.
#pragma once

#include "tensor/stream.h"

namespace tachy::runtime {

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // from, to [size, …]: from[p] goes to rank p, to[p] came from rank p.
  void all_to_all(const Tensor& from, const Tensor& to, Stream& stream);
  // part […] of each rank → whole [size, …] on all, in the order of ranks.
  void all_gather(const Tensor& part, const Tensor& whole, Stream& stream);
  // x = Σ of the ranks' x, f32, added in the order of ranks: all get the same bits, every time.
  void all_reduce(const Tensor& x, Stream& stream);
  // x of rank `root` on all.
  void broadcast(const Tensor& x, int root, Stream& stream);

 private:
  // Of checked arguments; never in a measure run, never with one rank.
  virtual void exchange(const Tensor& from, const Tensor& to, Stream& stream) = 0;
  virtual void gather(const Tensor& part, const Tensor& whole, Stream& stream) = 0;
  virtual void sum(const Tensor& x, Stream& stream) = 0;
  virtual void send(const Tensor& x, int root, Stream& stream) = 0;
};

Comm& local_comm();

}  // namespace tachy::runtime
