#include "media/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/last_words.h"

namespace tachy {
namespace fs = std::filesystem;

void fail_io(const fs::path& path, const char* what, int error_number) {
  fail(ErrorCode::io, "{}: cannot {}: {}", path.string(), what, std::strerror(error_number));
}

PartFile::PartFile(fs::path final_path) : final_(std::move(final_path)) {
  std::error_code ec;
  fs::file_status status = fs::status(final_, ec);
  if (fs::is_directory(status)) fail(ErrorCode::io, "{}: cannot write: this is a folder", final_.string());
  // A rename would replace a device or a pipe by a plain file.
  check(!fs::exists(status) || fs::is_regular_file(status), ErrorCode::io,
        "{}: cannot write: there is something with this name that is not a plain file", final_.string());
  fd_ = create_part(final_, part_);
  if (fd_ >= 0) return;
  const int reason = errno;
  check(reason != ENOENT || fs::is_directory(folder_of(final_), ec), ErrorCode::io,
        "{}: cannot write: there is no folder '{}'; make it first", final_.string(),
        folder_of(final_).string());
  fail_io(final_, "write", reason);
}

PartFile::PartFile(PartFile&& other) noexcept
    : final_(std::move(other.final_)), part_(std::move(other.part_)), fd_(std::exchange(other.fd_, -1)) {
  other.part_.clear();
}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
  if (part_.empty()) return;
  ::unlink(part_.c_str());
  forget_temporary(part_.native());
}

void PartFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io(final_, "write", errno);
    bytes = bytes.subspan(size_t(count));
  }
}

void PartFile::seal() {
  if (fd_ < 0) return;
  int fd = std::exchange(fd_, -1);
  // Some file systems cannot sync and say EINVAL; any other failure means lost data.
  int reason = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  if (::close(fd) != 0 && reason == 0 && errno != EINTR) reason = errno;
  if (reason != 0) fail_io(final_, "write", reason);
}

void PartFile::publish() {
  seal();
  if (::rename(part_.c_str(), final_.c_str()) != 0)
    fail_io(final_, "rename the finished file to this name", errno);
  forget_temporary(part_.native());
  part_.clear();
}

bool PartFile::publish_new() {
  seal();
  int rc = ::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE);
  if (rc != 0 &&
      errno != EEXIST) {  // some file systems cannot: a second name fails where the first one is taken
    rc = ::link(part_.c_str(), final_.c_str());
    if (rc == 0) ::unlink(part_.c_str());
  }
  if (rc != 0 && errno == EEXIST) return false;
  if (rc != 0) {  // nor can some do that
    std::error_code ec;
    if (fs::exists(fs::symlink_status(final_, ec))) return false;
    publish();
    return true;
  }
  forget_temporary(part_.native());
  part_.clear();
  return true;
}

void sync_folder(const fs::path& folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void check_readable_file(const fs::path& path) {
  std::error_code ec;
  fs::file_status status = fs::status(path, ec);
  check(fs::exists(status), ErrorCode::not_found, "{}: {}", path.string(), why_missing(path, "file"));
  check(fs::is_regular_file(status), ErrorCode::io, "{}: cannot read: not a plain file", path.string());
}

std::vector<uint8_t> read_file_bytes(const fs::path& path, uint64_t max_bytes) {
  check_readable_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_io(path, "read", errno);
  in.seekg(0, std::ios::end);
  auto size = int64_t(in.tellg());
  check(size >= 0 && uint64_t(size) <= max_bytes, ErrorCode::corrupt,
        "{}: expected a file of at most {} bytes, got {}", path.string(), max_bytes, size);
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  check(in.gcount() == size, ErrorCode::io, "{}: cannot read: got {} of {} bytes", path.string(),
        int64_t(in.gcount()), size);
  return bytes;
}

void check_writable(const char* field, const fs::path& path) {
  if (path.empty()) return;
  std::error_code ec;
  check(!fs::is_directory(path, ec), ErrorCode::io, "{}: {} is a folder", field, path.string());
  naming(field, [&] { const PartFile probe(path); });
}

void write_whole(const fs::path& path, const std::string& text) {
  PartFile file(path);
  file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  file.publish();
}

}  // namespace tachy
