#include "base/os/signals.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace tachy::os {
namespace {

static_assert(kClosedPipeExitCode == 128 + SIGPIPE);

void (*g_unreadable)(const void* address) = nullptr;

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  g_unreadable(info->si_addr);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void make_failed_writes_errors() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void on_unreadable_page(void (*then)(const void* address)) {
  g_unreadable = then;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void end_by_closed_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe;
  sigemptyset(&pipe), sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
  std::raise(SIGPIPE);
  std::_Exit(kClosedPipeExitCode);
}

bool Wakeup::open() {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  read_ = ends[0], write_ = ends[1];
  return true;
}

void Wakeup::wake() noexcept {
  [[maybe_unused]] const ssize_t ignored = ::write(static_cast<int>(write_), "", 1);
}

void Wakeup::wait() noexcept {
  char byte;
  while (::read(static_cast<int>(read_), &byte, 1) != 1) {
  }
}

}  // namespace tachy::os
