// A mapped file stays open for check_unchanged(). FileAccess::read reads the file into one Buffer.
#include "weights/mapped_file.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/map.h"

namespace tachy {
namespace {

// All mappings of this process, for copy_from_file.
std::shared_mutex g_mutex;
std::vector<const OpenMapping*> g_mappings;

void read_all(const os::File& file, void* to, uint64_t size, const std::string& path, uint64_t from = 0) {
  auto* at = static_cast<std::byte*>(to);
  for (uint64_t done = 0; done < size;) {
    std::error_code error;
    const size_t count = file.read_at(from + done, at + done, size - done, error);
    check(!error, ErrorCode::io, "{}: cannot read at byte {}: {}", path, from + done, error.message());
    check(count > 0, ErrorCode::io, "{}: the file ends at byte {} and had at least {} when it was opened",
          path, from + done, from + size);
    done += count;
  }
}

}  // namespace

struct OpenMapping {
  OpenMapping(os::File opened, os::Mapping mapped, const std::string& name)
      : file(std::move(opened)), memory(std::move(mapped)), path(name) {
    note_mapping(memory.data(), memory.size(), path);
    const std::unique_lock lock(g_mutex);
    g_mappings.push_back(this);
  }
  ~OpenMapping() {
    forget_mapping(memory.data());
    const std::unique_lock lock(g_mutex);
    std::erase(g_mappings, this);
  }
  OpenMapping(const OpenMapping&) = delete;
  OpenMapping& operator=(const OpenMapping&) = delete;

  os::File file;  // closed after the mapping has ended
  os::Mapping memory;
  std::string path;
};

MappedFile::MappedFile() = default;
MappedFile::MappedFile(MappedFile&& other) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept = default;
MappedFile::~MappedFile() = default;

MappedFile::MappedFile(const std::filesystem::path& path, FileAccess access) : path_(path.string()) {
  std::error_code error;
  os::File file(path, os::OpenAs::regular_input, error);
  if (error) {
    const bool missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    fail(missing ? ErrorCode::not_found : ErrorCode::io, "{}: cannot open: {}", path_,
         missing ? why_missing(path, "file or folder") : error.message());
  }
  const os::FileFacts facts = file.facts(error);
  check(!error, ErrorCode::io, "{}: cannot stat: {}", path_, error.message());
  check(facts.regular, ErrorCode::io, "{}: expected a regular file", path_);
  size_ = facts.bytes, modified_ns_ = facts.modified_ns;
  if (size_ == 0) return;
  if (access == FileAccess::read) {
    copy_ = Buffer(size_);
    read_all(file, copy_.data(), size_, path_);
    data_ = static_cast<const std::byte*>(copy_.data());
    log_topic("load", "read {} ({} bytes)", path_, size_);
    return;
  }
  os::Mapping memory = os::Mapping::of_file(file, size_, error);
  check(!error, error == std::errc::not_enough_memory ? ErrorCode::out_of_memory : ErrorCode::io,
        "{}: cannot map {} bytes: {}", path_, size_, error.message());
  data_ = static_cast<const std::byte*>(memory.data());
  mapped_ = std::make_unique<OpenMapping>(std::move(file), std::move(memory), path_);
  log_topic("load", "mapped {} ({} bytes)", path_, size_);
}

void copy_from_file(void* to, const void* from, size_t bytes) {
  constexpr size_t kLeast = 64 << 10;  // for fewer bytes, the lookup and the call cost more than they save
  const auto* at = static_cast<const std::byte*>(from);
  if (bytes >= kLeast) {
    const std::shared_lock lock(g_mutex);
    for (const OpenMapping* m : g_mappings) {
      const auto* begin = static_cast<const std::byte*>(m->memory.data());
      if (at < begin || at + bytes > begin + m->memory.size()) continue;
      return read_all(m->file, to, bytes, m->path, static_cast<uint64_t>(at - begin));
    }
  }
  std::memcpy(to, from, bytes);
}

int64_t MappedFile::modified_ns() const {
  if (!mapped_) return modified_ns_;
  std::error_code error;
  const os::FileFacts facts = mapped_->file.facts(error);
  return error ? modified_ns_ : facts.modified_ns;
}

void MappedFile::check_unchanged() const {
  if (!mapped_) return;
  std::error_code error;
  const os::FileFacts facts = mapped_->file.facts(error);
  check(!error, ErrorCode::io, "{}: cannot stat: {}", path_, error.message());
  check(facts.bytes == size_, ErrorCode::io,
        "{}: the file had {} bytes when it was opened and has {} now; with `weights` read it is read into "
        "memory at the start and may change later",
        path_, size_, facts.bytes);
}

}  // namespace tachy
