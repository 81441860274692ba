// A new folder in the system's temporary folder, which is removed at the end.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/os/folder.h"

namespace tachy {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tachyscope-validate-XXXXXX").string();
    const std::error_code error = os::make_unique_folder(name);
    check(!error, ErrorCode::io, "validate: cannot make a folder in {}: {}",
          std::filesystem::temp_directory_path().string(), error.message());
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tachy
