#include "base/os/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

namespace tachy::os {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) != 0; }

bool reader_gone(std::FILE* stream) {
  struct pollfd asked {
    ::fileno(stream), POLLOUT, 0
  };
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLERR | POLLHUP)) != 0;
}

void write_to_standard_error(std::string_view text) noexcept {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void occupy_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) == -1)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace tachy::os
