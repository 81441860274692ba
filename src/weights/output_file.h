// A file that appears under its name only when it is complete. It is written under a temporary name in the
// same folder (base/part_name), synced, and then renamed. Data may be written in any order, by several
// threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/os/file.h"

namespace tachy {

class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();  // removes the temporary file unless commit() has run
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write_at(uint64_t offset, const void* data, uint64_t bytes);
  // Makes the file `bytes` long; parts that were not written are zero. With `replace`, an existing file of
  // that name is replaced; without it, commit then throws io and leaves its file under the temporary name.
  void commit(uint64_t bytes, bool replace = true);

 private:
  std::filesystem::path path_, part_;
  os::File file_;
  bool owned_ = true;  // this object must remove the temporary file
};

}  // namespace tachy
