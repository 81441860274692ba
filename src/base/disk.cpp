#include "base/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {errno, std::generic_category()};
  const int reason = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  ::close(fd);
  return {reason, std::generic_category()};
}

}  // namespace tachy
