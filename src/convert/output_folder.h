// A folder that appears under its name only when it is complete. It is filled as .NAME.convert.part beside
// its final place, and then renamed. If a process was killed, the next one removes its remains.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/os/file.h"

namespace tachy {

class OutputFolder {
 public:
  // `subfolders` are one level of folders inside the folder. If another process is filling the same folder,
  // this throws io, leaves nothing behind, and does not touch that process's files.
  OutputFolder(std::filesystem::path path, const std::set<std::filesystem::path>& subfolders);
  ~OutputFolder();  // removes what was written unless commit() has run
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Returns the temporary place of a file of the folder. If a signal ends the process, the file is removed.
  std::filesystem::path place(const std::filesystem::path& file);
  // Puts everything on the disk and then gives it its name. With `replace`, a folder of that name is replaced
  // and removed. Without it, or if the name cannot be taken, throws io; the finished files stay where the
  // message says.
  void commit(bool replace);

 private:
  void make(const std::set<std::filesystem::path>& subfolders);
  void sync() const;
  void discard();

  std::filesystem::path path_, part_;
  std::vector<std::string> noted_;
  os::File lock_;  // the locked folder
};

}  // namespace tachy
