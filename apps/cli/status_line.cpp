#include "status_line.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/os/terminal.h"
#include "say.h"

namespace tachy::cli {

StatusLine::StatusLine(bool wanted) : wanted_(wanted), terminal_(os::is_terminal(stderr)) {}

void StatusLine::show(const std::string& text) {
  if (!wanted_) return;
  const bool first = !shown_;
  shown_ = true;
  if (terminal_)
    say(stderr, fmt::format("\r\033[K{}", text.substr(0, 100)));
  else if (first)
    heartbeat_.begin(text);
  else
    heartbeat_.update([text](double) { return text; });
}

void StatusLine::clear() {
  heartbeat_.end();
  if (shown_ && terminal_) say(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tachy::cli
