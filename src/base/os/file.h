// An open file that is closed when its owner is destroyed. Nothing here throws: failures are returned as a
// std::error_code with the system's message. A call that a signal interrupts is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/os/handle.h"

namespace tachy::os {

enum class OpenAs {
  input,  // for reading; opening a named pipe waits for a writer. A folder can be opened, too, to sync it
  regular_input,  // for reading, but never waits: for callers that refuse a pipe once facts() has reported it
  new_file,  // for reading and writing; file_exists if the name is taken, even by a link whose target is gone
  folder,    // for locking; a link to a folder is refused
};

struct FileFacts {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // when its content was last changed, in nanoseconds since 1970
  bool regular = false;     // whether it is a file and not a folder, pipe or device
};

class File {
 public:
  File() = default;  // holds no file
  File(const std::filesystem::path& path, OpenAs how, std::error_code& error);
  explicit File(Handle handle) : handle_(handle) {}  // takes ownership
  File(File&& other) noexcept : handle_(std::exchange(other.handle_, kNoHandle)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) close(), handle_ = std::exchange(other.handle_, kNoHandle);
    return *this;
  }
  ~File() { close(); }

  explicit operator bool() const { return handle_ != kNoHandle; }
  Handle handle() const { return handle_; }

  FileFacts facts(std::error_code& error) const;
  // Says whether this very file has that name. A link with that name does not count.
  bool is_at(const std::filesystem::path& path) const;

  // Returns the number of bytes read, which may be fewer than requested, or 0 at the end of the file.
  size_t read(void* to, size_t bytes, std::error_code& error);  // continues after the previous call
  size_t read_at(uint64_t offset, void* to, uint64_t bytes, std::error_code& error) const;
  // These write all bytes, or return an error.
  std::error_code write(const void* data, size_t bytes);  // continues after the previous call
  std::error_code write_at(uint64_t offset, const void* data, uint64_t bytes);
  std::error_code resize(uint64_t bytes);  // added bytes are zero

  // Waits until the file's bytes, or a folder's names, are on the disk. Returns std::errc::invalid_argument
  // on file systems that cannot do this.
  std::error_code sync();
  // Asks the system to drop the file from memory.
  void forget_cached();
  std::error_code close();  // does nothing if no file is open

 private:
  Handle handle_ = kNoHandle;
};

}  // namespace tachy::os
