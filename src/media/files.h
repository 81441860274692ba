// Files that appear under their names only when they are complete, and reading with a limit.
//
// PartFile writes a file under the name that base/part_name gives it, syncs it and renames it to the final
// name. Until publish() has run, its destructor removes the file.
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
  void write(std::span<const uint8_t> bytes);  // appends to what write() has written before
  void seal();                                 // syncs and closes the file
  void publish();                              // seals the file if needed, and then renames it
  // Does the same, but returns false if a file has the name by then; that file stays as it is.
  bool publish_new();

 private:
  std::filesystem::path final_, part_;
  os::File file_;
};

// Makes renames in this folder survive a power cut, if the file system can do so.
void sync_folder(const std::filesystem::path& folder);

// Throws "path: cannot WHAT: reason" with ErrorCode::io (not_found for a missing file that is to be read).
[[noreturn]] void fail_io(const std::filesystem::path& path, const char* what, std::error_code reason);
// Returns why the last call of C's library failed, even if it was made through C++'s streams.
inline std::error_code last_reason() { return {errno, std::generic_category()}; }

// Reads the whole file. Throws if it has more than max_bytes.
std::vector<uint8_t> read_file_bytes(const std::filesystem::path& path, uint64_t max_bytes);

// Throws not_found or io unless `path` is a regular file.
void check_readable_file(const std::filesystem::path& path);

// Throws io if no file can be written there, because hours of work must not end with that. "" is accepted.
// `field` names the option in messages, such as "`preview`".
void check_writable(const char* field, const std::filesystem::path& path);
// Writes the whole file, or none if that fails.
void write_whole(const std::filesystem::path& path, const std::string& text);

}  // namespace tachy
