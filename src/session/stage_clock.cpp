#include "session/stage_clock.h"

#include "tensor/hold.h"

namespace tachy {

StageClock::StageClock(const VideoCallbacks* callbacks, std::string stage, int64_t total, int64_t already)
    : callbacks_(callbacks),
      stage_(std::move(stage)),
      total_(total),
      already_(already),
      start_(computing_seconds()) {
  done(already);
}

void StageClock::done(int64_t count) {
  if (!callbacks_ || !callbacks_->progress) return;
  const double elapsed = computing_seconds() - start_;
  const double eta =
      count > already_ ? elapsed / static_cast<double>(count - already_) * static_cast<double>(total_ - count)
                       : -1;
  callbacks_->progress({stage_, count, total_, elapsed, eta});
}

}  // namespace tachy
