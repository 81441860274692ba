#include "interrupt.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "api/exit_code.h"
#include "base/last_words.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"
#include "commands.h"

namespace tachy::cli {

std::atomic<bool> g_cancel{false};

namespace {

constexpr std::chrono::milliseconds kPatience{300};

os::Wakeup g_wakeup;  // the handler wakes the thread that ends the process
std::atomic<int> g_exit_code{-1};
std::mutex g_note_mutex;
std::string g_note;

extern "C" void on_signal(int) {
  if (!g_cancel.exchange(true)) {
    g_wakeup.wake();
    return;
  }
  remove_temporaries();
  std::_Exit(exit_code(ErrorCode::cancelled));
}

[[noreturn]] void end_when_asked() {
  g_wakeup.wait();
  std::this_thread::sleep_for(kPatience);
  int code = -1;
  if (!g_exit_code.compare_exchange_strong(code, exit_code(ErrorCode::cancelled))) {
    std::this_thread::sleep_for(kPatience);  // the process has printed its last message and is about to end
    std::_Exit(code);
  }
  remove_temporaries();
  const std::lock_guard lock(g_note_mutex);
  os::write_to_standard_error(
      fmt::format("{}tachyscope: cancelled{}\n", os::is_terminal(stderr) ? "\r\033[K" : "", g_note));
  std::_Exit(exit_code(ErrorCode::cancelled));
}

}  // namespace

void install_interrupt() {
  if (g_wakeup.open()) {
    try {
      std::thread(end_when_asked).detach();
    } catch (const std::system_error&) {
      // If no memory is left for a thread, the command ends when it sees g_cancel.
    }
  }
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

void set_cancel_note(std::string note) {
  const std::lock_guard lock(g_note_mutex);
  g_note = std::move(note);
}

void set_exit_code(int code) {
  int none = -1;
  if (g_exit_code.compare_exchange_strong(none, code)) return;
  // Another thread is ending the process and has printed why.
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace tachy::cli
