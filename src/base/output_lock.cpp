#include "base/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/whole_characters.h"

namespace tachy {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestName = 255, kShortened = 150;

struct flock whole_file() {
  struct flock all {};
  all.l_type = F_WRLCK, all.l_whence = SEEK_SET;
  return all;
}

// flock does not say who has it. A second lock, of the other kind, does: it keeps nobody out (other threads of the process could
// take it), and it takes no room on a full disk, as a number in the file would.
void tell_number(int fd) {
  struct flock all = whole_file();
  ::fcntl(fd, F_SETLK, &all);
}

// "process (4711)"; without a number where the system has none: of another machine, another container or this very process.
std::string holder(int fd) {
  for (int tries = 0; tries < 10; ++tries) {  // it may have got only as far as the first lock
    if (tries > 0) ::usleep(5000);
    struct flock all = whole_file();
    if (::fcntl(fd, F_GETLK, &all) != 0) break;
    if (all.l_type != F_UNLCK)
      return all.l_pid > 0 ? fmt::format("process ({})", all.l_pid) : "process elsewhere";
  }
  return "process";
}

// Whether the name still leads to the file that is open.
bool is_at(int fd, const std::string& path) {
  struct stat ours {
  }, there{};
  return ::fstat(fd, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

int open_lock(const fs::path& output, const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  // Another user's can be locked all the same.
  if (fd < 0 && errno == EACCES) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const int reason = errno;
  if (fd >= 0) return fd;
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  std::error_code ec;
  check(reason != ENOENT || fs::is_directory(folder, ec), ErrorCode::io,
        "{}: cannot write: there is no folder '{}' ({}); make it first", output.string(), folder.string(),
        std::strerror(reason));
  fail(ErrorCode::io, "{}: cannot write: {}", output.string(), std::strerror(reason));
}

}  // namespace

fs::path OutputLock::file_of(const fs::path& output) {
  constexpr std::string_view kEnding = ".tachyscope.lock";
  std::string name = output.filename().string();
  if (name.size() + 1 + kEnding.size() > kLongestName) {
    Sha256 hash;
    hash.add(name);
    name = fmt::format("{}-{}", whole_characters(name, kShortened), hash.hex().substr(0, 16));
  }
  return (output.has_parent_path() ? output.parent_path() : fs::path(".")) /
         fmt::format(".{}{}", name, kEnding);
}

OutputLock::OutputLock(const fs::path& output) {
  const std::string other = take(output, true);
  check(other.empty(), ErrorCode::io, "{}: cannot write: another {} is writing it", output.string(), other);
}

std::optional<OutputLock> OutputLock::attempt(const fs::path& output) {
  OutputLock lock;
  if (!lock.take(output, false).empty()) return std::nullopt;
  return lock;
}

std::string OutputLock::take(const fs::path& output, bool told) {
  const std::string path = file_of(output).string();
  for (;;) {
    const int fd = open_lock(output, path);
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      const std::string other = told ? holder(fd) : "process";
      ::close(fd);
      return other;
    }
    if (!locked)
      warn("{}: its file system has no locks, so nothing keeps a second run from writing the same file",
           output.string());
    if (locked && !is_at(fd, path)) {  // its last owner has removed it between the two calls
      ::close(fd);
      continue;
    }
    struct stat file {};
    if (::fstat(fd, &file) == 0 && (file.st_size != 0 || !S_ISREG(file.st_mode))) {
      ::close(fd);
      fail(ErrorCode::io, "{}: cannot lock {}: {} exists and is not a lock of this program", output.string(),
           output.filename().string(), path);
    }
    tell_number(fd);
    path_ = path, fd_ = fd;
    note_temporary(path_);
    return "";
  }
}

void OutputLock::release() {
  if (fd_ < 0) return;
  // While it is locked: another process that opens it now finds that the name is gone, or another file's.
  if (is_at(fd_, path_)) ::unlink(path_.c_str());
  forget_temporary(path_);
  ::close(std::exchange(fd_, -1));
}

OutputLock::~OutputLock() { release(); }

OutputLock::OutputLock(OutputLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

OutputLock& OutputLock::operator=(OutputLock&& other) noexcept {
  release();
  path_ = std::move(other.path_), fd_ = std::exchange(other.fd_, -1);
  return *this;
}

}  // namespace tachy
