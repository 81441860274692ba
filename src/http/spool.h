// The folder for files that somebody sent, until a job takes them. Nothing that a sender says is part of a
// name there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/os/file.h"
#include "base/sha256.h"
#include "http/message.h"

namespace tachy::http {

// Writes one file and hashes it meanwhile. A file that is not finished is removed.
class SpoolWriter {
 public:
  explicit SpoolWriter(std::shared_ptr<SpooledFile> file);  // makes the file; throws io
  void add(std::string_view bytes);                         // throws io
  std::shared_ptr<SpooledFile> finish();                    // throws io

 private:
  std::shared_ptr<SpooledFile> file_;
  os::File out_;
  Sha256 hash_;
};

class Spool {
 public:
  // Makes the folder if it is missing, and removes the files in it, which an earlier process has left. Throws
  // io.
  explicit Spool(std::filesystem::path folder);
  // Begins a file under a new name; may be called from any thread. Throws io.
  SpoolWriter begin(std::string filename, std::string type) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tachy::http
