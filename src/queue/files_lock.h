// The folder of all of a server's files: made where it is missing, for this user alone, and locked as long as
// the server lives. The system releases the lock however the process ends.
#pragma once

#include <filesystem>

#include "base/os/file.h"

namespace tachy::queue {

class FilesLock {
 public:
  // Makes FILES, FILES/jobs and FILES/spool. Throws io if another server has the folder (with its process's
  // number), or if nothing can be written there.
  explicit FilesLock(const std::filesystem::path& files);

  const std::filesystem::path& files() const { return files_; }
  std::filesystem::path database() const { return files_ / "tachyscope.db"; }

 private:
  std::filesystem::path files_;
  os::File lock_;
};

}  // namespace tachy::queue
