// The lock itself is flock's. A second lock, made by fcntl, tells who holds it. That one keeps nobody out,
// since other threads of the process could take it; but unlike a number in the file it needs no room on a
// full disk.
#include "base/os/lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include "base/os/posix/calls.h"

namespace tachy::os {
namespace {

struct flock whole_file() {
  struct flock all {};
  all.l_type = F_WRLCK, all.l_whence = SEEK_SET;
  return all;
}

}  // namespace

File open_lock_file(const std::filesystem::path& path, std::error_code& error) {
  constexpr int kHow = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | kHow, 0666);
  if (fd < 0 && errno == EACCES) fd = ::open(path.c_str(), O_RDONLY | kHow);
  error = error_of(fd < 0);
  return error ? File() : File(fd);
}

LockResult try_lock(const File& file) {
  if (::flock(descriptor(file), LOCK_EX | LOCK_NB) == 0) return LockResult::locked;
  return errno == EWOULDBLOCK ? LockResult::taken : LockResult::unsupported;
}

void tell_holder(const File& file) {
  struct flock all = whole_file();
  ::fcntl(descriptor(file), F_SETLK, &all);
}

std::optional<ProcessId> told_holder(const File& file, std::error_code& error) {
  struct flock all = whole_file();
  error = error_of(::fcntl(descriptor(file), F_GETLK, &all));
  if (error || all.l_type == F_UNLCK) return std::nullopt;
  return all.l_pid > 0 ? all.l_pid : 0;
}

}  // namespace tachy::os
