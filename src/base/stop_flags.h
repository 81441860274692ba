// The flags by which another thread, or a signal handler, ends a run or makes it wait. Flags that are null are never
// set. They must outlive whoever looks at them.
#pragma once

#include <atomic>

#include "base/error.h"

namespace tachy {

// Work is to end when `flag` is true, unless `unless` is true as well.
struct CancelFlag {
  CancelFlag(const std::atomic<bool>* cancel = nullptr,  // NOLINT: a lone flag is the usual case
             const std::atomic<bool>* but_not_if = nullptr)
      : flag(cancel), unless(but_not_if) {}
  const std::atomic<bool>*flag, *unless;

  bool is_set() const { return flag && flag->load() && !(unless && unless->load()); }
  void throw_if_set() const { check(!is_set(), ErrorCode::cancelled, "cancelled"); }
};

struct StopFlags {
  StopFlags(const std::atomic<bool>* cancel_flag = nullptr,  // NOLINT: a lone flag is the usual case
            const std::atomic<bool>* hold_flag = nullptr)
      : cancel(cancel_flag), hold(hold_flag) {}
  const std::atomic<bool>* cancel;  // ends the run with ErrorCode::cancelled
  const std::atomic<bool>* hold;    // makes the run wait while it is true

  bool held() const { return hold && hold->load(); }
  void throw_if_cancelled() const { check(!cancel || !cancel->load(), ErrorCode::cancelled, "cancelled"); }
};

}  // namespace tachy
