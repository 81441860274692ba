#include "status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "media/files.h"

namespace tachy::cli {

StatusLine::StatusLine(bool wanted) : active_(wanted && isatty(STDERR_FILENO)) {}

void StatusLine::show(const std::string& text) {
  if (!active_) return;
  fmt::print(stderr, "\r\033[K{}", text.substr(0, 100));
  std::fflush(stderr);
  shown_ = true;
}

void StatusLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void check_writable(const char* option, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code ec;
  check(!std::filesystem::is_directory(path, ec), ErrorCode::io, "{}: {} is a folder", option, path.string());
  naming(option, [&] { const PartFile probe(path); });
}

void write_file(const std::string& path, const std::string& text) {
  PartFile file(path);
  file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  file.publish();
}

}  // namespace tachy::cli
