// Keeps a second process from writing the same output: a lock on the empty file .NAME.tachyscope.lock in the
// output's folder.
//
// The system releases the lock when the process ends, in whatever way. A killed process leaves a file that
// nobody has locked; the next run of the same output takes it over and removes it. Since it is in the
// output's own folder, it does not matter how the folder is spelled, or whether links lead there. The name
// itself is taken as given: a link is not the same output as the file that it leads to, since a finished file
// replaces the link. A file system without locks (some network mounts) locks nothing, which is reported once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/os/file.h"

namespace tachy {

class OutputLock {
 public:
  OutputLock() = default;  // locks nothing
  // Throws io with the other process's number while it is locked, and if nothing can be written there.
  explicit OutputLock(const std::filesystem::path& output);
  // Does the same, but returns nothing while it is locked.
  static std::optional<OutputLock> attempt(const std::filesystem::path& output);
  ~OutputLock() { release(); }
  OutputLock(OutputLock&& other) noexcept = default;
  OutputLock& operator=(OutputLock&& other) noexcept;

  static std::filesystem::path file_of(const std::filesystem::path& output);

 private:
  // Returns "" or the holder: "process (4711)"; without the number unless it is wanted.
  std::string take(const std::filesystem::path& output, bool told);
  void release();

  std::string path_;  // path of the lock's file
  os::File file_;
};

}  // namespace tachy
