#include "base/disk.h"

#include <algorithm>

#include "base/os/file.h"

namespace tachy {
namespace fs = std::filesystem;

std::vector<fs::path> list_folder(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> found;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error))
    found.push_back(item->path());
  if (error) found.clear();
  std::sort(found.begin(), found.end());
  return found;
}

std::error_code sync_to_disk(const fs::path& path) {
  std::error_code error;
  os::File file(path, os::OpenAs::input, error);
  if (error) return error;
  error = file.sync();
  return error == std::errc::invalid_argument ? std::error_code() : error;
}

}  // namespace tachy
