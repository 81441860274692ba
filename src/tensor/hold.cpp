#include "tensor/hold.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/thread_pool.h"

namespace tachy {
namespace {

// Nobody notifies a run whose flag changes, because a signal handler may have changed it.
constexpr std::chrono::milliseconds kLook{10};

thread_local double t_held_seconds = 0;
thread_local int t_no_hold = 0;

}  // namespace

NoHold::NoHold() { ++t_no_hold; }
NoHold::~NoHold() { --t_no_hold; }

double held_seconds() { return t_held_seconds; }

void hold_run(const Hooks& hooks) {
  const auto held = [&] {
    return hooks.hold && hooks.hold->load() && !(hooks.awaited && hooks.awaited->load() > 0);
  };
  if (!held() || t_no_hold > 0 || ThreadPool::in_body()) return;
  const ProfileRange range(hooks.profiler, "held", ProfileKind::other);
  const double begin = monotonic_seconds();
  const auto cancelled = [&] { return hooks.cancel && hooks.cancel->load(); };
  while (held() && !cancelled()) std::this_thread::sleep_for(kLook);
  t_held_seconds += monotonic_seconds() - begin;
  check(!cancelled(), ErrorCode::cancelled, "cancelled");
}

}  // namespace tachy
