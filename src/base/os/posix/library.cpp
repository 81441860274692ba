#include "base/os/library.h"

#include <dlfcn.h>

namespace tachy::os {

Library Library::open(const std::string& name, std::string& why) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle) why = ::dlerror();
  return Library(handle);
}

Library Library::loaded(const std::string& name) {
  return Library(::dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY));
}

std::filesystem::path Library::file_of(const void* address) {
  Dl_info info{};
  if (!::dladdr(address, &info) || !info.dli_fname) return {};
  std::error_code error;
  auto file = std::filesystem::canonical(info.dli_fname, error);
  // A program that was found by PATH may go by its bare name.
  if (error) file = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : file;
}

void* Library::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace tachy::os
