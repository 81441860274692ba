// Ranks that are processes, with their tensors on the host: exchanges go over the connections of a Mesh.
#pragma once

#include "distributed/mesh.h"
#include "runtime/comm.h"

namespace tachy::distributed {

class TcpComm final : public runtime::Comm {
 public:
  // The ranks [first, first + count) of the mesh, which is null where nothing is exchanged (a measuring run).
  // `rank` is this one's place among them.
  TcpComm(Mesh* mesh, int first, int count, int rank)
      : mesh_(mesh), first_(first), count_(count), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return count_; }

 private:
  void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) override;
  void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) override;

  Mesh* mesh_;
  int first_, count_, rank_;
};

}  // namespace tachy::distributed
