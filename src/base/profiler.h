// A profiler that reads the host's clock, and the events that it records.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/profile_range.h"

namespace tachy {

struct ProfileEvent {
  const char* name;
  ProfileKind kind;
  int64_t index;
  int lane;  // 0, 1, …: threads are numbered in the order of their first ranges; or a rank's lane
  double start_us, end_us;  // since the profiler was made; end is below start while the range is open
};

// The threads that a further rank of a run has, one after the other, share the lane kRankLane + rank.
inline constexpr int kRankLane = 1 << 16;

// While it exists, the ranges of the thread that made it belong to this rank. Rank 0 has its thread's own lane.
class RankOfThread {
 public:
  explicit RankOfThread(int rank);
  ~RankOfThread();
  RankOfThread(const RankOfThread&) = delete;
  RankOfThread& operator=(const RankOfThread&) = delete;

 private:
  int before_;
};

class HostProfiler : public Profiler {
 public:
  HostProfiler() : start_(std::chrono::steady_clock::now()) {}
  uint64_t begin(const char* name, ProfileKind kind, int64_t index) override;
  void end(uint64_t token) override;

  std::vector<ProfileEvent> events() const;  // only closed ranges, ordered by lane and start

 private:
  double now_us() const;
  std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  std::vector<ProfileEvent> events_;
  std::map<std::thread::id, int> lanes_;
};

}  // namespace tachy
