#include "say.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/last_words.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"
#include "interrupt.h"

namespace tachy::cli {
namespace {

std::atomic<bool> g_nobody{false};

}  // namespace

bool said_to_nobody() { return g_nobody; }

void say(std::FILE* to, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
  if (written) return;
  const int reason = errno;
  if (!os::reader_gone(to)) throw std::system_error(reason, std::generic_category());
  g_nobody = true;
  std::clearerr(to);
}

bool is_of_closed_pipe(const std::string& error) {
  return error.find(std::strerror(EPIPE)) != std::string::npos && os::reader_gone(stdout);
}

void end_by_closed_pipe() {
  set_exit_code(os::kClosedPipeExitCode);
  remove_temporaries();
  os::end_by_closed_pipe();
}

}  // namespace tachy::cli
