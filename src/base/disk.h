// Things that std::filesystem does not do, or does with exceptions of its own: listing a folder, and syncing
// to the disk.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace tachy {

// The contents of a folder, by name. `error` says why it cannot be listed; the part that was read before is
// dropped.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& error);

// Says whether the path is a folder or a link to one; false if that cannot be found out.
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Waits until a file's bytes, or a folder's names, are on the disk. If the file system cannot sync, that is
// not reported.
std::error_code sync_to_disk(const std::filesystem::path& path);

}  // namespace tachy
