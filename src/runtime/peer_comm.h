// Ranks that are threads of this process, each with a queue of a GPU. They meet on the host to tell one another
// where rows go, and each pushes its rows into the others' memory (cuda/peers.h).
//
// `careful` exchanges wait on the host for each queue. Nothing on a device then waits for another one, so a
// driver that stops a device to load a module or to allocate cannot tie the ranks in a knot: this is for passes
// in which that may happen, which are the first of their shape. All others use the barriers on the devices, and
// may be captured.
#pragma once

#include "cuda/peers.h"
#include "runtime/thread_comm.h"

namespace tachy::runtime {

class PeerComm final : public Comm {
 public:
  // A rank's end of the group; `gpu` is its GPU.
  PeerComm(MeetingPlace& place, cuda::PeerGroup& group, cuda::Gpu& gpu, int rank)
      : place_(place), group_(group), gpu_(gpu), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return place_.size(); }
  bool moves_views() const override { return true; }
  void set_careful(bool careful) { careful_ = careful; }
  // Returns the largest of the values that the ranks give here, on which they so agree.
  double most(double mine) { return place_.most(rank_, mine); }

 private:
  void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) override;
  void exchange_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                      bool free) override;
  int begin_exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                     bool patient) override;
  void await(int exchange, Stream& stream) override;
  void wait_for_all(Stream& stream) override;
  void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) override;
  // Returns what this rank sends of these views while all show theirs.
  std::vector<cuda::PeerRows> rows_of(std::span<const Tensor> from) const;
  // Calls rows() between two barriers, for what this rank pushes while all show `to`. Where `to` is free, the first
  // barrier is left out.
  template <class Rows>
  void push(std::span<const Tensor> to, Stream& stream, bool free, const Rows& rows);

  static constexpr int kHere = -1;  // the number of an exchange that is over when it has begun

  MeetingPlace& place_;
  cuda::PeerGroup& group_;
  cuda::Gpu& gpu_;
  int rank_;
  bool careful_ = false;
};

}  // namespace tachy::runtime
