// One open, fstat, mmap; the descriptor is closed at once, the mapping keeps the file alive.
#include "weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tachy {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
  // O_NONBLOCK: opening a named pipe must not hang.
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
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
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  check(address != MAP_FAILED, ErrorCode::io, "{}: cannot map {} bytes: {}", path_, size_,
        std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  log_topic("load", "mapped {} ({} bytes)", path_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tachy
