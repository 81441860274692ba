// Parts that the fuzz targets share: bytes as a file without touching a disk, and the contract that they
// check.
//
// The contract of every reader: whatever the bytes are, it returns or throws tachy::Error. Any other
// exception, a signal, a sanitizer's report, a hang or memory out of proportion is a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace tachy::fuzz {

namespace fs = std::filesystem;

// A regular file in memory; path() opens it by name, as a user's file would be.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)) {
    if (fd_ < 0) std::abort();
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;

  void set(std::string_view bytes) {
    if (::ftruncate(fd_, 0) != 0) std::abort();
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::pwrite(fd_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (n <= 0) std::abort();
      at += static_cast<size_t>(n);
    }
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// A folder that lives as long as the process.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "tachy_fuzz_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) std::abort();
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs `body`; an Error is the expected end of bad input and must have a text.
template <class F>
void expect_error_or_result(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    if (e.message().empty() || e.code() == ErrorCode::internal) std::abort();
  }
}

// Reads the first and last byte, so that a range outside its file is seen.
inline void touch(const void* data, uint64_t bytes) {
  if (bytes == 0) return;
  const auto* p = static_cast<const volatile unsigned char*>(data);
  (void)p[0], (void)p[bytes - 1];
}

inline std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Warnings of readers would fill the terminal.
inline const bool kQuiet = [] {
  set_quiet(true);
  return true;
}();

}  // namespace tachy::fuzz
