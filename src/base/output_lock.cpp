#include "base/output_lock.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/os/folder.h"
#include "base/os/lock.h"
#include "base/sha256.h"
#include "base/whole_characters.h"

namespace tachy {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestName = 255, kShortened = 150;

// Returns "process (4711)", or "process" without a number if the system gives none because the holder is on
// another machine, in another container or this very process.
std::string holder(const os::File& file) {
  for (int tries = 0; tries < 10; ++tries) {  // the holder may have the lock but not yet have told its number
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code error;
    const std::optional<os::ProcessId> process = os::told_holder(file, error);
    if (error) break;
    if (process) return *process > 0 ? fmt::format("process ({})", *process) : "process elsewhere";
  }
  return "process";
}

os::File open_lock(const fs::path& output, const std::string& path) {
  std::error_code error;
  os::File file = os::open_lock_file(path, error);
  if (!error) return file;
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  std::error_code ec;
  check(error != std::errc::no_such_file_or_directory || fs::is_directory(folder, ec), ErrorCode::io,
        "{}: cannot write: there is no folder '{}' ({}); make it first", output.string(), folder.string(),
        error.message());
  fail(ErrorCode::io, "{}: cannot write: {}", output.string(), error.message());
}

}  // namespace

fs::path OutputLock::file_of(const fs::path& output) {
  constexpr std::string_view kEnding = ".tachyscope.lock";
  std::string name = output.filename().string();
  if (name.size() + 1 + kEnding.size() > kLongestName) {
    Sha256 hash;
    hash.add(name);
    name = fmt::format("{}-{}", whole_characters(name, kShortened), hash.hex().substr(0, 16));
  }
  return (output.has_parent_path() ? output.parent_path() : fs::path(".")) /
         fmt::format(".{}{}", name, kEnding);
}

OutputLock::OutputLock(const fs::path& output) {
  const std::string other = take(output, true);
  check(other.empty(), ErrorCode::io, "{}: cannot write: another {} is writing it", output.string(), other);
}

std::optional<OutputLock> OutputLock::attempt(const fs::path& output) {
  OutputLock lock;
  if (!lock.take(output, false).empty()) return std::nullopt;
  return lock;
}

std::string OutputLock::take(const fs::path& output, bool told) {
  const std::string path = file_of(output).string();
  for (;;) {
    os::File file = open_lock(output, path);
    const os::LockResult result = os::try_lock(file);
    if (result == os::LockResult::taken) return told ? holder(file) : "process";
    const bool locked = result == os::LockResult::locked;
    if (!locked)
      warn("{}: its file system has no locks, so nothing keeps a second run from writing the same file",
           output.string());
    if (locked && !file.is_at(path)) continue;  // its last owner removed it between the two calls
    std::error_code error;
    const os::FileFacts facts = file.facts(error);
    check(error || (facts.bytes == 0 && facts.regular), ErrorCode::io,
          "{}: cannot lock {}: {} exists and is not a lock of this program", output.string(),
          output.filename().string(), path);
    os::tell_holder(file);
    path_ = path, file_ = std::move(file);
    note_temporary(path_);
    return "";
  }
}

void OutputLock::release() {
  if (!file_) return;
  // The file is removed while it is still locked. Another process that opens it at this moment will find that
  // its name is gone or belongs to another file.
  if (file_.is_at(path_)) os::remove_file(path_.c_str());
  forget_temporary(path_);
  file_.close();
}

OutputLock& OutputLock::operator=(OutputLock&& other) noexcept {
  release();
  path_ = std::move(other.path_), file_ = std::move(other.file_);
  return *this;
}

}  // namespace tachy
