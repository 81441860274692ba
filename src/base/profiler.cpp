#include "base/profiler.h"

#include <algorithm>

namespace tachy {
namespace {

thread_local int rank_of_thread = 0;

}  // namespace

RankOfThread::RankOfThread(int rank) : before_(rank_of_thread) { rank_of_thread = rank; }
RankOfThread::~RankOfThread() { rank_of_thread = before_; }

const char* profile_kind_name(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::group:
      return "group";
    case ProfileKind::attention:
      return "attention";
    case ProfileKind::norm:
      return "norm";
    case ProfileKind::linear:
      return "linear";
    case ProfileKind::convolution:
      return "convolution";
    case ProfileKind::cache:
      return "cache";
    case ProfileKind::elementwise:
      return "elementwise";
    case ProfileKind::load:
      return "load";
    case ProfileKind::output:
      return "output";
    case ProfileKind::other:
      return "other";
  }
  return "other";
}

double HostProfiler::now_us() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
}

uint64_t HostProfiler::begin(const char* name, ProfileKind kind, int64_t index) {
  std::lock_guard lock(mutex_);
  const int lane =
      rank_of_thread > 0
          ? kRankLane + rank_of_thread
          : lanes_.try_emplace(std::this_thread::get_id(), static_cast<int>(lanes_.size())).first->second;
  events_.push_back({name, kind, index, lane, 0, -1});
  events_.back().start_us = now_us();  // set last, so that the bookkeeping is not included
  return events_.size() - 1;
}

void HostProfiler::end(uint64_t token) {
  const double now = now_us();
  std::lock_guard lock(mutex_);
  events_.at(token).end_us = now;
}

std::vector<ProfileEvent> HostProfiler::events() const {
  std::vector<ProfileEvent> out;
  {
    std::lock_guard lock(mutex_);
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(out),
                 [](const ProfileEvent& e) { return e.end_us >= e.start_us; });
  }
  // A parent may begin at the same instant as its first child, but was pushed earlier. Keep that order.
  std::stable_sort(out.begin(), out.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.start_us < b.start_us;
  });
  return out;
}

}  // namespace tachy
