#include "queue/files_lock.h"

#include <chrono>
#include <optional>
#include <thread>

#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os/lock.h"

namespace tachy::queue {

namespace fs = std::filesystem;

namespace {

// Makes a folder that only this user can enter. One that exists keeps the rights that somebody gave it.
void make_private(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (!error && made) fs::permissions(folder, fs::perms::owner_all, error);
  check(!error && is_folder(folder), ErrorCode::io, "{}: cannot make the folder of the server's files: {}",
        folder.string(), error ? error.message() : "a file has this name");
}

std::string holder(const os::File& lock) {
  for (int tries = 0; tries < 10; ++tries) {  // whoever has the lock may not have told its number yet
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code error;
    const std::optional<os::ProcessId> process = os::told_holder(lock, error);
    if (process && *process > 0) return fmt::format(" (process {})", *process);
  }
  return "";
}

}  // namespace

FilesLock::FilesLock(const fs::path& files) : files_(files) {
  make_private(files);
  const fs::path name = files / "lock";
  std::error_code error;
  lock_ = os::open_lock_file(name, error);
  check(!error, ErrorCode::io, "{}: cannot write: {}", name.string(), error.message());
  const os::LockResult result = os::try_lock(lock_);
  if (result == os::LockResult::taken)
    fail(ErrorCode::io, "{}: another server{} has this folder; stop it, or choose another folder",
         files.string(), holder(lock_));
  if (result == os::LockResult::unsupported)
    warn("{}: its file system has no locks, so nothing keeps a second server from using the folder",
         files.string());
  os::tell_holder(lock_);
  make_private(files / "jobs");
  make_private(files / "spool");
}

}  // namespace tachy::queue
