// Mapped: one open, fstat, mmap; the descriptor stays for check_unchanged(). Read: into one Buffer.
#include "weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "base/log.h"

namespace tachy {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void read_all(int fd, void* to, uint64_t size, const std::string& path) {
  auto* at = static_cast<std::byte*>(to);
  for (uint64_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(fd, at + done, std::min<uint64_t>(size - done, 1u << 30), static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, ErrorCode::io, "{}: cannot read at byte {}: {}", path, done, std::strerror(errno));
    check(count > 0, ErrorCode::io, "{}: the file shrank from {} to {} bytes while it was read", path, size,
          done);
    done += static_cast<uint64_t>(count);
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, FileAccess access) : path_(path.string()) {
  // O_NONBLOCK: opening a named pipe must not hang.
  Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const int reason = errno;
    fail(reason == ENOENT || reason == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "{}: cannot open: {}",
         path_, std::strerror(reason));
  }
  struct stat info {};
  check(::fstat(file.fd, &info) == 0, ErrorCode::io, "{}: cannot stat: {}", path_, std::strerror(errno));
  check(S_ISREG(info.st_mode), ErrorCode::io, "{}: expected a regular file", path_);
  size_ = static_cast<uint64_t>(info.st_size);
  if (size_ == 0) return;
  if (access == FileAccess::read) {
    copy_ = Buffer(size_);
    read_all(file.fd, copy_.data(), size_, path_);
    data_ = static_cast<const std::byte*>(copy_.data());
    log_topic("load", "read {} ({} bytes)", path_, size_);
    return;
  }
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  check(address != MAP_FAILED, errno == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io,
        "{}: cannot map {} bytes: {}", path_, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  fd_ = std::exchange(file.fd, -1);
  note_mapping(data_, size_, path_);
  log_topic("load", "mapped {} ({} bytes)", path_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      copy_(std::move(other.copy_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(copy_, other.copy_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ && !in_memory()) {
    forget_mapping(data_);
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::check_unchanged() const {
  if (fd_ < 0) return;
  struct stat info {};
  check(::fstat(fd_, &info) == 0, ErrorCode::io, "{}: cannot stat: {}", path_, std::strerror(errno));
  check(static_cast<uint64_t>(info.st_size) == size_, ErrorCode::io,
        "{}: the file had {} bytes when it was opened and has {} now; with --weights read it is read into "
        "memory at "
        "the start and may change later",
        path_, size_, info.st_size);
}

}  // namespace tachy
