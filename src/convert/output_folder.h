// A folder that appears under its name whole or not at all: it is filled as .NAME.convert.part beside it, and
// then renamed. If a process was killed, the next one removes what it left.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/os/file.h"

namespace tachy {

class OutputFolder {
 public:
  // subfolders: one level of them inside the folder. Throws io and leaves nothing behind, even while another
  // process fills the same folder, whose files stay.
  OutputFolder(std::filesystem::path path, const std::set<std::filesystem::path>& subfolders);
  ~OutputFolder();  // removes what was written, unless commit() has run
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Returns the place where a file of the folder is written for now. It is also removed if a signal ends the
  // process.
  std::filesystem::path place(const std::filesystem::path& file);
  // Everything is on the disk before it gets its name. replace: replaces a folder of that name, which is
  // removed. Without it, or if the name cannot be taken, throws io and leaves the finished files in the place
  // that the message names.
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
