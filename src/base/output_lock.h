// Keeps a second process from writing the same output, by a lock on the empty file .NAME.tachyscope.lock in
// the output's folder.
//
// The system releases the lock when the process ends, however it ends. A killed process leaves the file
// behind unlocked, and the next run with the same output takes it over and removes it. Because the file is in
// the output's own folder, it does not matter how the folder is spelled, or whether links lead there. The
// name itself is not resolved: a link is a different output from the file that it leads to, since the
// finished file replaces the link. On a file system without locks (some network mounts) nothing is locked,
// and this is reported once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/os/file.h"

namespace tachy {

class OutputLock {
 public:
  OutputLock() = default;  // locks nothing
  // Throws io if the output is locked, with the other process's number, or if nothing can be written there.
  explicit OutputLock(const std::filesystem::path& output);
  // Returns nothing if the output is locked; otherwise does what the constructor does.
  static std::optional<OutputLock> attempt(const std::filesystem::path& output);
  ~OutputLock() { release(); }
  OutputLock(OutputLock&& other) noexcept = default;
  OutputLock& operator=(OutputLock&& other) noexcept;

  static std::filesystem::path file_of(const std::filesystem::path& output);

 private:
  // Returns "", or the holder as "process (4711)". `told` says whether the number is wanted.
  std::string take(const std::filesystem::path& output, bool told);
  void release();

  std::string path_;  // the lock file
  os::File file_;
};

}  // namespace tachy
