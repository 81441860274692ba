// A file that appears under its name whole or not at all: it is written under a name of its own in the same folder
// (base/part_name), synced, then renamed. Data may be written in any order, and by several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/os/file.h"

namespace tachy {

class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();  // removes the temporary file, unless commit() has run
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write_at(uint64_t offset, const void* data, uint64_t bytes);
  // Makes the file `bytes` long; what was not written is zero. With `replace`, a file of that name is
  // replaced; otherwise the call throws io and leaves the finished file under its temporary name.
  void commit(uint64_t bytes, bool replace = true);

 private:
  std::filesystem::path path_, part_;
  os::File file_;
  bool owned_ = true;  // the temporary file is ours to remove
};

}  // namespace tachy
