// Files that appear whole or not at all, and capped reading.
//
// PartFile writes a file under the name that base/part_name gives it, syncs it and renames it over the final name.
// Until publish() has run, its destructor removes it.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/os/file.h"
#include "base/part_name.h"

namespace tachy {

class PartFile {
 public:
  explicit PartFile(std::filesystem::path final_path);  // throws io with the path and the system's reason
  ~PartFile();
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;

  const std::filesystem::path& path() const { return part_; }
  const std::filesystem::path& final_path() const { return final_; }
  void write(std::span<const uint8_t> bytes);  // at the end of what write() wrote
  void seal();                                 // sync and close
  void publish();                              // seal() if needed, then rename
  bool publish_new();  // the same, or false where the name is taken by now: then it stays as it is

 private:
  std::filesystem::path final_, part_;
  os::File file_;
};

// Makes renames in this folder survive a power cut; without complaint where the file system cannot.
void sync_folder(const std::filesystem::path& folder);

// "path: cannot WHAT: reason", with ErrorCode::io (not_found for a missing file that was to be read).
[[noreturn]] void fail_io(const std::filesystem::path& path, const char* what, std::error_code reason);
// The reason of the last call of C's library, and of C++'s streams over it, that failed.
inline std::error_code last_reason() { return {errno, std::generic_category()}; }

// The whole file; at most max_bytes of it exist, or it throws.
std::vector<uint8_t> read_file_bytes(const std::filesystem::path& path, uint64_t max_bytes);

// Throws not_found or io unless `path` is a regular file.
void check_readable_file(const std::filesystem::path& path);

// Throws io where a file could not be written there: hours of work must not end in that. "" is fine. field: for messages, "`preview`".
void check_writable(const char* field, const std::filesystem::path& path);
// Writes a finished file or none.
void write_whole(const std::filesystem::path& path, const std::string& text);

}  // namespace tachy
