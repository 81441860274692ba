#include "runtime/thread_comm.h"

#include <algorithm>
#include <cstring>

namespace tachy::runtime {
namespace {

// Copies into `to` the tensor that another rank shows, which has the same number of bytes.
void take(const Tensor& from, const Tensor& to) {
  const int64_t given = from.defined() ? from.bytes() : 0, wanted = to.defined() ? to.bytes() : 0;
  check(given == wanted, ErrorCode::internal, "ranks: {} bytes were sent where {} are expected", given,
        wanted);
  if (given > 0 && from.data != to.data) std::memcpy(to.data, from.data, static_cast<size_t>(given));
}

}  // namespace

void MeetingPlace::show(int rank, Shown tensors) { shown_[static_cast<size_t>(rank)] = tensors; }

void MeetingPlace::meet() {
  std::unique_lock lock(mutex_);
  if (abandoned_) throw Abandoned{};
  const uint64_t mine = meeting_;
  if (++waiting_ == size()) {
    waiting_ = 0, ++meeting_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return meeting_ != mine || abandoned_; });
  if (meeting_ == mine) throw Abandoned{};
}

double MeetingPlace::most(int rank, double value) {
  values_[static_cast<size_t>(rank)] = value;
  meet();
  const double out = *std::ranges::max_element(values_);
  meet();  // after this, a rank may give its next value
  return out;
}

void MeetingPlace::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void ThreadComm::exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream&) {
  place_.show(rank_, from);
  place_.meet();
  for (int p = 0; p < size(); ++p)
    take(place_.shown(p)[static_cast<size_t>(rank_)], to[static_cast<size_t>(p)]);
  place_.meet();  // after this, the rank may change the tensors that it showed
}

void ThreadComm::collect(const Tensor& part, std::span<const Tensor> to, Stream&) {
  place_.show(rank_, {&part, 1});
  place_.meet();
  for (size_t p = 0; p < to.size(); ++p) take(place_.shown(static_cast<int>(p)).front(), to[p]);
  place_.meet();
}

}  // namespace tachy::runtime
