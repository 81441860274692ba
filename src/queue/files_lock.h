// The folder of all of a server's files: made where it is missing, for this user alone, and locked as long as
// the server lives. The system releases the lock however the process ends.
//
// Servers of one database may share the folder. Then each has a folder of its own in it, under its name, for what is
// its alone, and only that one is locked.
#pragma once

#include <filesystem>
#include <string>

#include "base/os/file.h"

namespace tachy::queue {

class FilesLock {
 public:
  // Makes FILES, FILES/jobs and FILES/spool. Throws io if another server has the folder (with its process's
  // number), or if nothing can be written there. With a host's name it makes FILES/jobs and
  // FILES/hosts/NAME/spool, which servers of other names may share. A folder is shared or is not, for ever: the jobs of
  // the one are not in the other's table. Throws invalid_argument for other names than is_host_name() knows.
  explicit FilesLock(const std::filesystem::path& files, const std::string& host = "");

  const std::filesystem::path& files() const { return files_; }
  const std::filesystem::path& own() const { return own_; }  // FILES, or FILES/hosts/NAME
  std::filesystem::path spool() const { return own_ / "spool"; }
  std::filesystem::path database() const { return files_ / "tachyscope.db"; }
  const std::string& id() const { return id_; }  // of a shared folder, wherever a host sees it; else ""

 private:
  std::filesystem::path files_, own_;
  std::string id_;
  os::File lock_;
};

// Says whether a text is 1 to 64 letters, digits, ".", "-" and "_", and begins with no ".".
bool is_host_name(const std::string& text);

}  // namespace tachy::queue
