// A shared library that is opened while the program runs. It is never closed: its threads and the objects
// that it has returned live as long as the process.
#pragma once

#include <filesystem>
#include <string>

namespace tachy::os {

class Library {
 public:
  Library() = default;  // holds no library
  // Opens a library. If `name` is not a path, the system searches its usual folders. Libraries that are
  // loaded later can use its symbols. On failure, `why` is the system's reason.
  static Library open(const std::string& name, std::string& why);
  // Returns a library that the process has already loaded, or none.
  static Library loaded(const std::string& name);
  // The program or library that holds this code or constant, with links followed; "" if the system does not say.
  static std::filesystem::path file_of(const void* address);

  explicit operator bool() const { return handle_ != nullptr; }
  void* symbol(const char* name) const;  // nullptr if the library has no such symbol

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

}  // namespace tachy::os
