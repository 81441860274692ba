// A token bucket: `rate` tokens a second flow in, it holds at most `most`, and each message takes one.
#pragma once

#include <algorithm>
#include <chrono>

namespace tachy::http {

class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double rate, double most, Clock::time_point now)
      : rate_(rate), most_(most), tokens_(most), at_(now) {}

  // Takes a token that is there or will come; returns how long to wait for it.
  Clock::duration take(Clock::time_point now) {
    if (now > at_) {
      tokens_ = std::min(most_, tokens_ + rate_ * std::chrono::duration<double>(now - at_).count());
      at_ = now;
    }
    tokens_ -= 1;
    if (tokens_ >= 0) return {};
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-tokens_ / rate_));
  }

 private:
  double rate_, most_, tokens_;
  Clock::time_point at_;
};

}  // namespace tachy::http
