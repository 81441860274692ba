// Signals beyond those of C++ (SIGINT and SIGTERM, which std::signal has everywhere), and how a handler wakes a thread.
#pragma once

#include "base/os/handle.h"

namespace tachy::os {

// From now on a pipe without a reader, and a file that may not grow, are errors of whoever writes, and do not end the process.
void make_failed_writes_errors();

// `then` is called when mapped memory at `address` cannot be read: its file became shorter, or its disk failed. It may do what a
// signal handler may, at any moment and in any thread. Where it returns, the access is repeated and ends the process as usual.
void on_unreadable_page(void (*then)(const void* address));

// Ends the process as one that writes to a pipe without a reader ends by itself; a shell calls that 141.
inline constexpr int kClosedPipeExitCode = 141;
[[noreturn]] void end_by_closed_pipe();

// Lets a signal handler wake a thread. Open until the process ends: a signal may come as long as it lives.
class Wakeup {
 public:
  bool open();           // false: the system has no room for it; wake() does nothing then
  void wake() noexcept;  // also in a signal handler
  void wait() noexcept;  // until somebody has called wake(), before or after

 private:
  Handle read_ = kNoHandle, write_ = kNoHandle;
};

}  // namespace tachy::os
