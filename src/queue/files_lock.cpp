#include "queue/files_lock.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os/lock.h"
#include "base/random_bytes.h"
#include "base/text_file.h"

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

// Returns the id in FILES/files-id, which the first host makes. A link to a whole file gives it its name, so that
// another host that looks at the same moment finds none or all of it.
std::string shared_id(const fs::path& files) {
  const fs::path file = files / "files-id";
  std::error_code error;
  if (!fs::exists(file, error)) {
    const std::string text = random_hex(32) + "\n";
    const fs::path fresh = file.string() + "." + random_hex(8) + ".new";
    os::File out(fresh, os::OpenAs::new_file, error);
    if (!error) error = out.write(text.data(), text.size());
    if (!error) error = out.close();
    check(!error, ErrorCode::io, "{}: cannot write: {}", fresh.string(), error.message());
    fs::create_hard_link(fresh, file, error);                        // fails where another host was faster
    if (error && !fs::exists(file)) fs::rename(fresh, file, error);  // a file system without links
    std::error_code ignored;
    fs::remove(fresh, ignored);
  }
  std::string id = read_text_file(file, 4096);
  while (id.ends_with("\n")) id.pop_back();
  check(id.size() == 32 && id.find_first_not_of("0123456789abcdef") == id.npos, ErrorCode::corrupt,
        "{}: it is cut short; stop all hosts and remove the file, and a new one is made", file.string());
  return id;
}

}  // namespace

bool is_host_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

FilesLock::FilesLock(const fs::path& files, const std::string& host) : files_(files), own_(files) {
  require(host.empty() || is_host_name(host), "`name`: expected letters, digits, '.', '-' and '_', got '{}'",
          host);
  make_private(files);
  std::error_code error;
  if (host.empty()) {
    check(!fs::exists(files / "files-id", error), ErrorCode::io,
          "{}: servers with a database share this folder; name that database, or choose another folder",
          files.string());
  } else {
    check(!fs::exists(database(), error), ErrorCode::io,
          "{}: a server with a table of its own has this folder; choose another one", files.string());
    id_ = shared_id(files);
    own_ = files / "hosts" / host;
    make_private(files / "hosts");
    make_private(own_);
  }
  const fs::path name = own_ / "lock";
  lock_ = os::open_lock_file(name, error);
  check(!error, ErrorCode::io, "{}: cannot write: {}", name.string(), error.message());
  const os::LockResult result = os::try_lock(lock_);
  if (result == os::LockResult::taken)
    fail(ErrorCode::io, "{}: another server{} has this folder; stop it, or choose another {}", own_.string(),
         holder(lock_), host.empty() ? "folder" : "name");
  if (result == os::LockResult::unsupported)
    warn("{}: its file system has no locks, so nothing keeps a second server from using the folder",
         own_.string());
  os::tell_holder(lock_);
  make_private(files / "jobs");
  make_private(spool());
}

}  // namespace tachy::queue
