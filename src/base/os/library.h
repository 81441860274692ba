// A shared library that is opened while the program runs. It is never closed: its threads and what it has handed out live as long
// as the process.
#pragma once

#include <string>

namespace tachy::os {

class Library {
 public:
  Library() = default;  // none
  // Found as the system finds libraries, where `name` is no path. Other libraries find its symbols. Without success `why` is the
  // system's reason.
  static Library open(const std::string& name, std::string& why);
  // One that the process has loaded already, or none.
  static Library loaded(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  void* symbol(const char* name) const;  // nullptr: it has none of that name

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

}  // namespace tachy::os
