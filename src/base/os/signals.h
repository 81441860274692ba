// Signals other than those of C++ (SIGINT and SIGTERM, which std::signal supports everywhere), and a way for
// a handler to wake a thread.
#pragma once

#include "base/os/handle.h"

namespace tachy::os {

// From now on, writing to a pipe without a reader, or to a file that may not grow, is an error for the writer
// and does not end the process.
void make_failed_writes_errors();

// `then` is called when mapped memory at `address` cannot be read, because its file became shorter or its
// disk failed. It may do what a signal handler may, at any moment and in any thread. If it returns, the
// access is repeated and ends the process as usual.
void on_unreadable_page(void (*then)(const void* address));

// Ends the process as writing to a pipe without a reader does by default; a shell reports that as 141.
inline constexpr int kClosedPipeExitCode = 141;
[[noreturn]] void end_by_closed_pipe();

// Lets a signal handler wake a thread. It is open until the process ends, since a signal may come until then.
class Wakeup {
 public:
  bool open();           // false: the system has no room for it; wake() then does nothing
  void wake() noexcept;  // may also be called in a signal handler
  void wait() noexcept;  // returns when wake() was called, before or during the wait

 private:
  Handle read_ = kNoHandle, write_ = kNoHandle;
};

}  // namespace tachy::os
