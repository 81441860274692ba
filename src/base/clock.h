// A clock that is never set back, to measure durations with.
#pragma once

#include <chrono>

namespace tachy {

inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tachy
