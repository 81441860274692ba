// A folder that appears under its name whole or not at all: it is filled as .NAME.convert.part beside it, and renamed.
// What a killed process left of it is removed by the next one.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/os/file.h"

namespace tachy {

class OutputFolder {
 public:
  // subfolders: of the folder, one level. Throws io and leaves nothing, also while another process fills the same
  // folder, whose files stay.
  OutputFolder(std::filesystem::path path, const std::set<std::filesystem::path>& subfolders);
  ~OutputFolder();  // removes what was written, unless commit() has run
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Where a file of the folder is written for now. It is removed, too, if the process is ended by a signal.
  std::filesystem::path place(const std::filesystem::path& file);
  // Everything is on the disk before it has the name. replace: takes the place of a folder of that name, which is
  // removed. Without it, or where the name cannot be taken, it throws io and leaves what is finished where the
  // message says.
  void commit(bool replace);

 private:
  void make(const std::set<std::filesystem::path>& subfolders);
  void sync() const;
  void discard();

  std::filesystem::path path_, part_;
  std::vector<std::string> noted_;
  os::File lock_;  // the folder, locked
};

}  // namespace tachy
