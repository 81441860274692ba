// Ranks that are processes with a GPU each: exchanges are queued on the stream's device by NCCL.
#pragma once

#include "cuda/vendor/nccl.h"
#include "runtime/comm.h"

namespace tachy::distributed {

class NcclComm final : public runtime::Comm {
 public:
  // The ranks [first, first + count) of those that NCCL has joined. `rank` is this one's place among them.
  NcclComm(cuda::NcclRanks& ranks, int first, int count, int rank)
      : ranks_(ranks), first_(first), count_(count), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return count_; }

 private:
  void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) override;
  void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) override;

  cuda::NcclRanks& ranks_;
  int first_, count_, rank_;
};

}  // namespace tachy::distributed
