// Signals that C++ does not cover (std::signal handles SIGINT and SIGTERM everywhere), and a way for a
// handler to wake a thread.
#pragma once

#include "base/os/handle.h"

namespace tachy::os {

// From now on, writing to a pipe without a reader, or to a file that may not grow, fails with an error and
// does not end the process.
void make_failed_writes_errors();

// `then` is called when mapped memory at `address` cannot be read because its file became shorter or its disk
// failed. It may be called at any moment in any thread, so it may only do what a signal handler may. When it
// returns, the access is repeated and ends the process as usual.
void on_unreadable_page(void (*then)(const void* address));

// Ends the process as SIGPIPE would; a shell reports this as exit code 141.
inline constexpr int kClosedPipeExitCode = 141;
[[noreturn]] void end_by_closed_pipe();

// Lets a signal handler wake a thread. It stays open until the process ends, since a signal may come until
// then.
class Wakeup {
 public:
  bool open();           // returns false if the system has no room; wake() then does nothing
  void wake() noexcept;  // may also be called in a signal handler
  void wait() noexcept;  // returns when wake() was called, before the wait or during it

 private:
  Handle read_ = kNoHandle, write_ = kNoHandle;
};

}  // namespace tachy::os
