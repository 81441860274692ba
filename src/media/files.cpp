#include "media/files.h"

#include <fstream>
#include <utility>

#include "base/disk.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "base/last_words.h"
#include "base/os/folder.h"

namespace tachy {
namespace fs = std::filesystem;

void fail_io(const fs::path& path, const char* what, std::error_code reason) {
  fail(ErrorCode::io, "{}: cannot {}: {}", path.string(), what, reason.message());
}

PartFile::PartFile(fs::path final_path) : final_(std::move(final_path)) {
  std::error_code ec;
  fs::file_status status = fs::status(final_, ec);
  if (fs::is_directory(status)) fail(ErrorCode::io, "{}: cannot write: this is a folder", final_.string());
  // A rename would replace a device or a pipe by a plain file.
  check(!fs::exists(status) || fs::is_regular_file(status), ErrorCode::io,
        "{}: cannot write: there is something with this name that is not a plain file", final_.string());
  std::error_code reason;
  file_ = create_part(final_, part_, reason);
  if (!reason) return;
  check(reason != std::errc::no_such_file_or_directory || fs::is_directory(folder_of(final_), ec),
        ErrorCode::io, "{}: cannot write: there is no folder '{}'; make it first", final_.string(),
        folder_of(final_).string());
  fail_io(final_, "write", reason);
}

PartFile::PartFile(PartFile&& other) noexcept
    : final_(std::move(other.final_)), part_(std::move(other.part_)), file_(std::move(other.file_)) {
  other.part_.clear();
}

PartFile::~PartFile() {
  file_.close();
  if (part_.empty()) return;
  std::error_code ignored;
  fs::remove(part_, ignored);
  forget_temporary(part_.native());
}

void PartFile::write(std::span<const uint8_t> bytes) {
  if (const std::error_code reason = file_.write(bytes.data(), bytes.size()))
    fail_io(final_, "write", reason);
}

void PartFile::seal() {
  if (!file_) return;
  // Some file systems report that they cannot sync. Any other failure means lost data.
  std::error_code reason = file_.sync();
  if (reason == std::errc::invalid_argument) reason.clear();
  const std::error_code closed = file_.close();
  if (!reason && closed != std::errc::interrupted) reason = closed;
  if (reason) fail_io(final_, "write", reason);
}

void PartFile::publish() {
  seal();
  std::error_code reason;
  fs::rename(part_, final_, reason);
  if (reason) fail_io(final_, "rename the finished file to this name", reason);
  forget_temporary(part_.native());
  part_.clear();
}

bool PartFile::publish_new() {
  seal();
  const std::error_code reason = os::rename_new(part_, final_);
  if (reason == std::errc::file_exists) return false;
  if (reason) {  // some file systems cannot do this
    std::error_code ec;
    if (fs::exists(fs::symlink_status(final_, ec))) return false;
    publish();
    return true;
  }
  forget_temporary(part_.native());
  part_.clear();
  return true;
}

void sync_folder(const fs::path& folder) { sync_to_disk(folder); }

void check_readable_file(const fs::path& path) {
  std::error_code ec;
  fs::file_status status = fs::status(path, ec);
  check(fs::exists(status), ErrorCode::not_found, "{}: {}", path.string(), why_missing(path, "file"));
  check(fs::is_regular_file(status), ErrorCode::io, "{}: cannot read: not a plain file", path.string());
}

std::vector<uint8_t> read_file_bytes(const fs::path& path, uint64_t max_bytes) {
  check_readable_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_io(path, "read", last_reason());
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
