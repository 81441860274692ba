// Mapped: one open, fstat, mmap; the descriptor stays for check_unchanged(). Read: into one Buffer.
#include "weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/foreign_file.h"
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

int64_t modified(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// The mappings of this process, for copy_from_file.
struct Mapping {
  const std::byte* begin;
  uint64_t bytes;
  int fd;
  std::string path;
};
std::shared_mutex g_mutex;
std::vector<Mapping> g_mappings;

void read_all(int fd, void* to, uint64_t size, const std::string& path, uint64_t from = 0) {
  auto* at = static_cast<std::byte*>(to);
  for (uint64_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(fd, at + done, std::min<uint64_t>(size - done, 1u << 30), static_cast<off_t>(from + done));
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, ErrorCode::io, "{}: cannot read at byte {}: {}", path, from + done,
          std::strerror(errno));
    check(count > 0, ErrorCode::io, "{}: the file ends at byte {} and had at least {} when it was opened",
          path, from + done, from + size);
    done += static_cast<uint64_t>(count);
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, FileAccess access) : path_(path.string()) {
  // O_NONBLOCK: opening a named pipe must not hang.
  Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const int reason = errno;
    const bool missing = reason == ENOENT || reason == ENOTDIR;
    fail(missing ? ErrorCode::not_found : ErrorCode::io, "{}: cannot open: {}", path_,
         missing ? why_missing(path, "file or folder") : std::strerror(reason));
  }
  struct stat info {};
  check(::fstat(file.fd, &info) == 0, ErrorCode::io, "{}: cannot stat: {}", path_, std::strerror(errno));
  check(S_ISREG(info.st_mode), ErrorCode::io, "{}: expected a regular file", path_);
  size_ = static_cast<uint64_t>(info.st_size), modified_ns_ = modified(info);
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
  {
    const std::unique_lock lock(g_mutex);
    g_mappings.push_back({data_, size_, fd_, path_});
  }
  log_topic("load", "mapped {} ({} bytes)", path_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(other.modified_ns_),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      copy_(std::move(other.copy_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(copy_, other.copy_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ && !in_memory()) {
    forget_mapping(data_);
    {
      const std::unique_lock lock(g_mutex);
      std::erase_if(g_mappings, [&](const Mapping& m) { return m.begin == data_; });
    }
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (fd_ >= 0) ::close(fd_);
}

void copy_from_file(void* to, const void* from, size_t bytes) {
  constexpr size_t kLeast = 64 << 10;  // below it the lookup and the call cost more than they save
  const auto* at = static_cast<const std::byte*>(from);
  if (bytes >= kLeast) {
    const std::shared_lock lock(g_mutex);
    for (const Mapping& m : g_mappings) {
      if (at < m.begin || at + bytes > m.begin + m.bytes) continue;
      return read_all(m.fd, to, bytes, m.path, static_cast<uint64_t>(at - m.begin));
    }
  }
  std::memcpy(to, from, bytes);
}

int64_t MappedFile::modified_ns() const {
  struct stat info {};
  return fd_ >= 0 && ::fstat(fd_, &info) == 0 ? modified(info) : modified_ns_;
}

void MappedFile::check_unchanged() const {
  if (fd_ < 0) return;
  struct stat info {};
  check(::fstat(fd_, &info) == 0, ErrorCode::io, "{}: cannot stat: {}", path_, std::strerror(errno));
  check(static_cast<uint64_t>(info.st_size) == size_, ErrorCode::io,
        "{}: the file had {} bytes when it was opened and has {} now; with `weights` read it is read "
        "into memory at the start and may change later",
        path_, size_, info.st_size);
}

}  // namespace tachy
