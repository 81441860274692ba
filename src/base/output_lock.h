// Keeps a second process from writing the same output: a lock on the empty file .NAME.tachyscope.lock in the output's folder.
//
// The system gives the lock back when the process ends, however it ends. What a killed process leaves is a file
// that nobody has locked; the next run of the same output takes it over and removes it. Since it lies in the output's own folder,
// it does not matter how the folder is spelled, nor whether links lead there. The name itself is taken as it is given: a link in its
// place is another output than what it leads to, since a finished file replaces the link. A file system without locks (some
// network mounts) locks nothing, which is said once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/os/file.h"

namespace tachy {

class OutputLock {
 public:
  OutputLock() = default;  // of nothing
  // Throws io with the other process's number while it is locked, and where nothing can be written there.
  explicit OutputLock(const std::filesystem::path& output);
  // The same, or nothing while it is locked.
  static std::optional<OutputLock> attempt(const std::filesystem::path& output);
  ~OutputLock() { release(); }
  OutputLock(OutputLock&& other) noexcept = default;
  OutputLock& operator=(OutputLock&& other) noexcept;

  static std::filesystem::path file_of(const std::filesystem::path& output);

 private:
  // Empty, or who has it: "process (4711)"; without the number unless it is to be told.
  std::string take(const std::filesystem::path& output, bool told);
  void release();

  std::string path_;  // of the lock's file
  os::File file_;
};

}  // namespace tachy
