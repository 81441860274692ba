#include "pipelines/output_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"

namespace tachy {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path, const std::set<fs::path>& subfolders)
    : path_(std::move(path)),
      part_(path_.parent_path() / ("." + path_.filename().string() + ".convert.part")) {
  std::error_code error;
  fs::create_directory(part_, error);
  check(!error, ErrorCode::io, "{}: cannot create: {}", part_.string(), error.message());
  fd_ = ::open(part_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  check(fd_ >= 0, ErrorCode::io, "{}: cannot open: {}", part_.string(), std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    fail(ErrorCode::io, "{}: cannot write: another process is writing it", path_.string());
  }
  try {
    make(subfolders);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

void OutputFolder::make(const std::set<fs::path>& subfolders) {
  std::error_code error;
  for (const auto& left : fs::directory_iterator(part_, error)) fs::remove_all(left.path(), error);
  for (const fs::path& folder : subfolders) {
    fs::create_directories(part_ / folder, error);
    check(!error, ErrorCode::io, "{}: cannot create: {}", (part_ / folder).string(), error.message());
    noted_.push_back((part_ / folder).string());
  }
  noted_.push_back(part_.string());  // after what it holds, as they are removed in this order
  for (const std::string& folder : noted_) note_temporary(folder);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove_all(part_, ignored);
  for (const std::string& path : noted_) forget_temporary(path);
  if (fd_ >= 0) ::close(fd_);
}

fs::path OutputFolder::place(const fs::path& file) {
  const fs::path path = part_ / file;
  noted_.push_back(path.string());
  note_temporary(noted_.back());
  return path;
}

void OutputFolder::commit(bool replace) {
  ::fsync(fd_);
  const char *from = part_.c_str(), *to = path_.c_str();
  std::error_code error;
  const bool taken = fs::exists(fs::symlink_status(path_, error)) &&
                     !(fs::is_directory(path_, error) && fs::is_empty(path_, error));
  const auto kept = [&](const std::string& why) {
    const std::string finished = std::exchange(part_, fs::path()).string();
    fail(ErrorCode::io, "{}: {}; what was made is {}", path_.string(), why, finished);
  };
  if (!taken) {
    if (::rename(from, to) != 0) kept(std::strerror(errno));
    part_.clear();
    return;
  }
  if (!replace) kept("it has appeared in the meantime");
  // In one step, so that there is always one of the two; what is removed then is the old one.
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return;
  // Some file systems cannot: the old one steps aside first.
  const fs::path old = path_.parent_path() / ("." + path_.filename().string() + ".convert.old");
  if (::rename(to, old.c_str()) != 0) kept(std::strerror(errno));
  if (::rename(from, to) != 0) {
    const std::string why = std::strerror(errno);
    ::rename(old.c_str(), to);
    kept(why);
  }
  part_ = old;
}

}  // namespace tachy
