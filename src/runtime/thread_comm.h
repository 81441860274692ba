// Ranks that are threads of this process, with their tensors on the host, so exchanges are plain copies. A
// team may have several groups of ranks; ranks exchange only within their group.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/comm.h"

namespace tachy::runtime {

// Where the ranks of one group wait for each other. If a rank gives up, because of an error or because it was
// stopped, all ranks that wait or come later get an exception of type Abandoned, so that none waits for ever.
class MeetingPlace {
 public:
  struct Abandoned {};

  explicit MeetingPlace(int size) : shown_(static_cast<size_t>(size)) {}
  int size() const { return static_cast<int>(shown_.size()); }

  // Shows the tensors of rank `rank` to the others until all have met once more.
  using Shown = std::span<const Tensor>;
  void show(int rank, Shown tensors);
  const Shown& shown(int rank) const { return shown_[static_cast<size_t>(rank)]; }
  void meet();
  // Returns the largest of the values that the ranks give here.
  double most(int rank, double value);
  void abandon();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  uint64_t meeting_ = 0;
  bool abandoned_ = false;
  std::vector<Shown> shown_;
  std::vector<double> values_ = std::vector<double>(shown_.size());
};

class ThreadComm final : public Comm {
 public:
  ThreadComm(MeetingPlace& place, int rank) : place_(place), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return place_.size(); }

 private:
  void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) override;
  void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) override;
  void wait_for_all(Stream&) override { place_.meet(); }

  MeetingPlace& place_;
  int rank_;
};

}  // namespace tachy::runtime
