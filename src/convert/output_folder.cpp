#include "convert/output_folder.h"

#include <utility>

#include "base/disk.h"
#include "base/error.h"
#include "base/last_words.h"
#include "base/os/folder.h"
#include "base/os/lock.h"

namespace tachy {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path, const std::set<fs::path>& subfolders)
    : path_(std::move(path)),
      part_(path_.parent_path() / ("." + path_.filename().string() + ".convert.part")) {
  std::error_code error;
  fs::create_directory(part_, error);
  check(!error, ErrorCode::io, "{}: cannot create: {}", part_.string(), error.message());
  lock_ = os::File(part_, os::OpenAs::folder, error);
  check(!error, ErrorCode::io, "{}: cannot open: {}", part_.string(), error.message());
  check(os::try_lock(lock_) != os::LockResult::taken, ErrorCode::io,
        "{}: cannot write: another process is writing it", path_.string());
  try {
    make(subfolders);
  } catch (...) {
    discard();
    throw;
  }
}

void OutputFolder::make(const std::set<fs::path>& subfolders) {
  std::error_code error;
  const std::vector<fs::path> left = list_folder(part_, error);
  check(!error, ErrorCode::io, "{}: cannot list the folder: {}", part_.string(), error.message());
  for (const fs::path& item : left) {
    fs::remove_all(item, error);
    check(!error, ErrorCode::io, "{}: cannot remove what an earlier run left: {}", item.string(),
          error.message());
  }
  for (const fs::path& folder : subfolders) {
    fs::create_directories(part_ / folder, error);
    check(!error, ErrorCode::io, "{}: cannot create: {}", (part_ / folder).string(), error.message());
    noted_.push_back((part_ / folder).string());
  }
  noted_.push_back(part_.string());  // noted after its contents, because this is the order of removal
  for (const std::string& folder : noted_) note_temporary(folder);
}

OutputFolder::~OutputFolder() { discard(); }

void OutputFolder::discard() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove_all(part_, ignored);
  for (const std::string& path : noted_) forget_temporary(path);
  lock_.close();
}

fs::path OutputFolder::place(const fs::path& file) {
  const fs::path path = part_ / file;
  noted_.push_back(path.string());
  note_temporary(noted_.back());
  return path;
}

void OutputFolder::sync() const {
  for (const std::string& path : noted_) {
    const std::error_code error = sync_to_disk(path);
    check(!error, ErrorCode::io, "{}: cannot sync: {}", path, error.message());
  }
}

void OutputFolder::commit(bool replace) {
  sync();
  std::error_code error;
  const bool taken = fs::exists(fs::symlink_status(path_, error)) &&
                     !(fs::is_directory(path_, error) && fs::is_empty(path_, error));
  const auto kept = [&](const std::string& why) {
    const std::string finished = std::exchange(part_, fs::path()).string();
    fail(ErrorCode::io, "{}: {}; what was made is {}", path_.string(), why, finished);
  };
  const fs::path beside = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  if (!taken) {
    fs::rename(part_, path_, error);
    if (error) kept(error.message());
    part_.clear();
    sync_to_disk(beside);  // only for the name: the contents are on the disk already
    return;
  }
  if (!replace) kept("it has been created in the meantime");
  // One step exchanges both names, so one of the folders always has the name. Afterwards the old folder is
  // removed.
  if (!os::exchange_names(part_, path_)) {
    sync_to_disk(beside);
    return;
  }
  // Some file systems cannot exchange names, so the old folder is first moved aside.
  const fs::path old = path_.parent_path() / ("." + path_.filename().string() + ".convert.old");
  fs::rename(path_, old, error);
  if (error) kept(error.message());
  fs::rename(part_, path_, error);
  if (error) {
    std::error_code ignored;
    fs::rename(old, path_, ignored);
    kept(error.message());
  }
  sync_to_disk(beside);
  part_ = old;
}

}  // namespace tachy
