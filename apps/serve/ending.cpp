#include "ending.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "api/exit_code.h"
#include "base/last_words.h"
#include "base/os/signals.h"

namespace tachy::serve_app {

std::atomic<bool> g_ending{false};

namespace {

constexpr std::chrono::milliseconds kPatience{4500};

os::Wakeup g_wakeup;  // the handler wakes the thread that ends the process

extern "C" void on_end_signal(int) {
  if (!g_ending.exchange(true)) {
    g_wakeup.wake();
    return;
  }
  remove_temporaries();
  std::_Exit(exit_code(ErrorCode::cancelled));
}

[[noreturn]] void end_after_a_while() {
  g_wakeup.wait();
  std::this_thread::sleep_for(kPatience);
  remove_temporaries();
  std::_Exit(0);
}

}  // namespace

void install_ending() {
  if (g_wakeup.open()) {
    try {
      std::thread(end_after_a_while).detach();
    } catch (const std::system_error&) {
      // Without the thread, the server ends when its jobs have stopped.
    }
  }
  std::signal(SIGINT, on_end_signal);
  std::signal(SIGTERM, on_end_signal);
}

}  // namespace tachy::serve_app
