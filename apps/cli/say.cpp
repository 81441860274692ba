#include "say.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/last_words.h"
#include "interrupt.h"

namespace tachy::cli {
namespace {

constexpr int kBySigpipe = 128 + SIGPIPE;  // as a shell says it

std::atomic<bool> g_nobody{false};

}  // namespace

bool reader_gone(int descriptor) {
  struct pollfd asked {
    descriptor, POLLOUT, 0
  };
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLERR | POLLHUP)) != 0;
}

bool said_to_nobody() { return g_nobody; }

void say(std::FILE* to, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
  if (written) return;
  const int reason = errno;
  if (!reader_gone(::fileno(to))) throw std::system_error(reason, std::generic_category());
  g_nobody = true;
  std::clearerr(to);
}

bool is_of_closed_pipe(const std::string& error) {
  return error.find(std::strerror(EPIPE)) != std::string::npos && reader_gone(STDOUT_FILENO);
}

void end_by_closed_pipe() {
  set_exit_code(kBySigpipe);
  remove_temporaries();
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe;
  sigemptyset(&pipe), sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
  std::raise(SIGPIPE);
  std::_Exit(kBySigpipe);
}

}  // namespace tachy::cli
