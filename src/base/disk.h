// What std::filesystem does not do, or does by exceptions of its own: a folder's list, and what reaches the disk.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace tachy {

// What lies in a folder, by name. `error` says why it cannot be listed; what is read of it until then is dropped.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& error);

// Whether it is one, or leads to one; false where that cannot be told.
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Waits until a file's bytes, or a folder's names, are on the disk. Where a file system cannot sync, nothing is said.
std::error_code sync_to_disk(const std::filesystem::path& path);

}  // namespace tachy
