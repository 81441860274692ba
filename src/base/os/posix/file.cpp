#include "base/os/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/os/posix/calls.h"

namespace tachy::os {
namespace {

constexpr uint64_t kMostAtOnce = 1u << 30;  // systems set limits of their own, from 2 GiB on

int open_flags(OpenAs how) {
  switch (how) {
    case OpenAs::input:
      return O_RDONLY;
    case OpenAs::regular_input:
      return O_RDONLY | O_NONBLOCK;
    case OpenAs::new_file:
      return O_RDWR | O_CREAT | O_EXCL;
    case OpenAs::folder:
      return O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  }
  return O_RDONLY;
}

// Repeats a call that returns a number of bytes as long as signals interrupt it.
template <class Call>
ssize_t uninterrupted(Call&& call) {
  ssize_t count;
  do count = call();
  while (count < 0 && errno == EINTR);
  return count;
}

size_t counted(ssize_t count, std::error_code& error) {
  error = error_of(count < 0);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

}  // namespace

File::File(const std::filesystem::path& path, OpenAs how, std::error_code& error)
    : handle_(::open(path.c_str(), open_flags(how) | O_CLOEXEC, 0666)) {
  error = error_of(handle_ < 0);
}

FileFacts File::facts(std::error_code& error) const {
  struct stat info {};
  error = error_of(::fstat(descriptor(*this), &info));
  return error ? FileFacts() : facts_of(info);
}

bool File::is_at(const std::filesystem::path& path) const {
  struct stat ours {
  }, there{};
  return ::fstat(descriptor(*this), &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

size_t File::read(void* to, size_t bytes, std::error_code& error) {
  return counted(uninterrupted([&] { return ::read(descriptor(*this), to, bytes); }), error);
}

size_t File::read_at(uint64_t offset, void* to, uint64_t bytes, std::error_code& error) const {
  const size_t most = std::min(bytes, kMostAtOnce);
  return counted(
      uninterrupted([&] { return ::pread(descriptor(*this), to, most, static_cast<off_t>(offset)); }), error);
}

std::error_code File::write(const void* data, size_t bytes) {
  for (auto at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = uninterrupted([&] { return ::write(descriptor(*this), at, bytes); });
    if (count < 0) return last_error();
    at += count, bytes -= static_cast<size_t>(count);
  }
  return {};
}

std::error_code File::write_at(uint64_t offset, const void* data, uint64_t bytes) {
  for (auto at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = uninterrupted([&] {
      return ::pwrite(descriptor(*this), at, std::min(bytes, kMostAtOnce), static_cast<off_t>(offset));
    });
    if (count < 0) return last_error();
    // Without this, the loop would never end.
    if (count == 0) return std::make_error_code(std::errc::io_error);
    at += count, offset += static_cast<uint64_t>(count), bytes -= static_cast<uint64_t>(count);
  }
  return {};
}

std::error_code File::resize(uint64_t bytes) {
  return error_of(::ftruncate(descriptor(*this), static_cast<off_t>(bytes)));
}

std::error_code File::sync() { return error_of(::fsync(descriptor(*this))); }

void File::forget_cached() {
#ifdef POSIX_FADV_DONTNEED
  ::posix_fadvise(descriptor(*this), 0, 0, POSIX_FADV_DONTNEED);
#endif
}

std::error_code File::close() {
  if (handle_ == kNoHandle) return {};
  return error_of(::close(static_cast<int>(std::exchange(handle_, kNoHandle))));
}

}  // namespace tachy::os
