// An open file, closed with its owner. Nothing here throws: the reason of a failure is a std::error_code, whose message is the
// system's. A call that a signal interrupts is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/os/handle.h"

namespace tachy::os {

enum class OpenAs {
  input,  // to be read; at a named pipe it waits until somebody writes. A folder opens, too: to be synced
  regular_input,  // the same without waiting, for those who refuse a pipe once facts() have told them
  new_file,  // to be read and written; file_exists where the name is taken, also by a link that leads nowhere
  folder,    // to be locked; a link to a folder is none
};

struct FileFacts {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // when its content last changed, in nanoseconds since 1970
  bool regular = false;     // no folder, pipe or device
};

class File {
 public:
  File() = default;  // none
  File(const std::filesystem::path& path, OpenAs how, std::error_code& error);
  explicit File(Handle handle) : handle_(handle) {}  // takes it over
  File(File&& other) noexcept : handle_(std::exchange(other.handle_, kNoHandle)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) close(), handle_ = std::exchange(other.handle_, kNoHandle);
    return *this;
  }
  ~File() { close(); }

  explicit operator bool() const { return handle_ != kNoHandle; }
  Handle handle() const { return handle_; }

  FileFacts facts(std::error_code& error) const;
  // Whether the name, and not a link of that name, leads to this very file.
  bool is_at(const std::filesystem::path& path) const;

  // The number of bytes read, 0 at the end of the file; fewer than asked for are no error.
  size_t read(void* to, size_t bytes, std::error_code& error);  // goes on where the last one ended
  size_t read_at(uint64_t offset, void* to, uint64_t bytes, std::error_code& error) const;
  // All bytes, or an error.
  std::error_code write(const void* data, size_t bytes);  // goes on where the last one ended
  std::error_code write_at(uint64_t offset, const void* data, uint64_t bytes);
  std::error_code resize(uint64_t bytes);  // what it grows by is zero

  // Waits until its bytes, or a folder's names, are on the disk. Some file systems cannot: std::errc::invalid_argument.
  std::error_code sync();
  // Asks the system to forget what it holds of the file in memory.
  void forget_cached();
  std::error_code close();  // none is fine

 private:
  Handle handle_ = kNoHandle;
};

}  // namespace tachy::os
