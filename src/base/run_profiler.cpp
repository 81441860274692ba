#include "base/run_profiler.h"

#include <algorithm>

namespace tachy {

double RunProfiler::now_us() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
}

void RunProfiler::add_device_event(const ProfileEvent& event) {
  std::lock_guard lock(mutex_);
  device_.push_back(event);
}

std::vector<ProfileEvent> RunProfiler::all_events() const {
  std::vector<ProfileEvent> all = events();
  const auto host = static_cast<std::ptrdiff_t>(all.size());
  {
    std::lock_guard lock(mutex_);
    all.insert(all.end(), device_.begin(), device_.end());
  }
  // A parent is reported after its children and may begin at the same instant as the first; it ends later.
  std::stable_sort(all.begin() + host, all.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.start_us != b.start_us ? a.start_us < b.start_us : a.end_us > b.end_us;
  });
  return all;
}

}  // namespace tachy
