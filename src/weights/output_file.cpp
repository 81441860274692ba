#include "weights/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"

namespace tachy {

OutputFile::OutputFile(const std::filesystem::path& path, bool alone)
    : path_(path.string()), part_(path_ + ".part") {
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  check(fd_ >= 0, ErrorCode::io, "{}: cannot create: {}", part_, std::strerror(errno));
  try {
    if (alone) lock();
    check(::ftruncate(fd_, 0) == 0, ErrorCode::io, "{}: cannot write: {}", part_, std::strerror(errno));
  } catch (...) {
    ::close(fd_);
    throw;
  }
  note_temporary(part_);
}

OutputFile::~OutputFile() {
  if (owned_) ::unlink(part_.c_str());  // before its lock ends with the descriptor
  if (fd_ >= 0) ::close(fd_);
  forget_temporary(part_);
}

// Where a file system has no locks, nothing is locked.
void OutputFile::lock() {
  const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  // It may have been finished and renamed between the two calls: then the lock is on the finished file.
  struct stat ours {
  }, there{};
  const bool same = ::fstat(fd_, &ours) == 0 && ::stat(part_.c_str(), &there) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  check(locked && same, ErrorCode::io, "{}: cannot write: another process is writing it", path_);
}

void OutputFile::write_at(uint64_t offset, const void* data, uint64_t bytes) {
  auto at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd_, at, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    check(done > 0, ErrorCode::io, "{}: cannot write: {}", path_, std::strerror(errno));
    at += done;
    offset += static_cast<uint64_t>(done), bytes -= static_cast<uint64_t>(done);
  }
}

void OutputFile::commit(uint64_t bytes, bool replace) {
  check(::ftruncate(fd_, static_cast<off_t>(bytes)) == 0, ErrorCode::io, "{}: cannot write: {}", path_,
        std::strerror(errno));
  check(::fsync(fd_) == 0, ErrorCode::io, "{}: cannot sync: {}", path_, std::strerror(errno));
  bool named = false;
  if (!replace) {  // a second name fails where the first one is taken
    named = ::link(part_.c_str(), path_.c_str()) == 0;
    if (!named && errno == EEXIST) {
      owned_ = false;
      fail(ErrorCode::io, "{}: it has appeared in the meantime; what was made is {}", path_, part_);
    }
  }
  if (named)
    ::unlink(part_.c_str());
  else
    check(::rename(part_.c_str(), path_.c_str()) == 0, ErrorCode::io, "{}: cannot rename the finished {}: {}",
          path_, part_, std::strerror(errno));
  owned_ = false;
  const int closed = ::close(std::exchange(fd_, -1));
  check(closed == 0, ErrorCode::io, "{}: cannot close: {}", path_, std::strerror(errno));
}

}  // namespace tachy
