#include "jobs/claimed_output.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "jobs/output_name.h"

namespace tachy::jobs {

namespace fs = std::filesystem;

namespace {

constexpr int kMostOfAName = 1000000;

// "folder/" and "folder/frame_%04d.png" stand for the same pictures (media/video/video_writer.h).
fs::path locked_name(const fs::path& output, bool streamed) {
  if (is_folder(output)) return output / "frame_%04d.png";
  std::error_code ec;
  return streamed && fs::is_symlink(output, ec) ? fs::weakly_canonical(output, ec) : output;
}

// Several processes may write to a pipe or a device.
bool is_special(const fs::path& output) {
  std::error_code ec;
  const fs::file_status status = fs::status(output, ec);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(fs::symlink_status(path, ec));
}

// Says whether the output does not exist and no interrupted run has left anything to resume for it.
bool is_free(const fs::path& output) {
  return !is_there(output) && !is_there(beside(output, ".resume")) && !is_there(beside(output, ".windows"));
}

}  // namespace

ClaimedOutput::ClaimedOutput(fs::path output, bool streamed) : path_(as_output(output)) {
  if (path_ == "-" || is_special(path_)) return;
  if (is_folder(path_)) {
    std::error_code ec;
    if (fs::create_directory(path_.parent_path(), ec)) made_ = path_.parent_path();
    check(!ec, ErrorCode::io, "{}: cannot make the folder: {}", path_.parent_path().string(), ec.message());
  }
  try {
    lock_ = OutputLock(locked_name(path_, streamed));
  } catch (...) {
    give_back();
    throw;
  }
  if (!made_.empty()) note_temporary(made_.native());
}

std::optional<ClaimedOutput> ClaimedOutput::attempt(const fs::path& output) {
  std::optional<OutputLock> lock = OutputLock::attempt(locked_name(output, false));
  if (!lock) return std::nullopt;
  ClaimedOutput out;
  out.path_ = output, out.lock_ = std::move(*lock);
  return out;
}

ClaimedOutput ClaimedOutput::next_free(const fs::path& first) {
  for (int n = 1; n < kMostOfAName; ++n) {
    const fs::path name = nth_name(first, n);
    if (!is_free(name)) continue;
    // Check once more now that the name is ours: another process may have finished the video in between.
    std::optional<ClaimedOutput> claimed = attempt(name);
    if (claimed && is_free(name)) return std::move(*claimed);
  }
  fail(ErrorCode::io, "{}: this name and the ones that would follow it are taken; give the output a name",
       first.string());
}

// The folder stays if there is something in it.
void ClaimedOutput::give_back() {
  lock_ = OutputLock();
  if (made_.empty()) return;
  std::error_code ec;
  fs::remove(made_, ec);
  forget_temporary(made_.native());
  made_.clear();
}

ClaimedOutput::~ClaimedOutput() { give_back(); }

ClaimedOutput::ClaimedOutput(ClaimedOutput&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, fs::path())),
      lock_(std::move(other.lock_)) {}

ClaimedOutput& ClaimedOutput::operator=(ClaimedOutput&& other) noexcept {
  give_back();
  path_ = std::move(other.path_);
  made_ = std::exchange(other.made_, fs::path());
  lock_ = std::move(other.lock_);
  return *this;
}

}  // namespace tachy::jobs
