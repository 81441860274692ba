// Two things that std::filesystem lacks, or does only with exceptions of its own: listing a folder, and
// waiting until data is on the disk.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace tachy {

// Returns the contents of a folder, sorted by name. If the folder cannot be read to its end, `error` says why
// and the result is empty.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& error);

// Says whether the path is a folder or a link to one. The answer is false if that cannot be found out.
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Waits until a file's bytes, or a folder's names, are on the disk. A file system that cannot do this is not
// reported as an error.
std::error_code sync_to_disk(const std::filesystem::path& path);

}  // namespace tachy
