#include "base/os/library.h"

#include <dlfcn.h>
#include <link.h>

#include "base/os/process.h"

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
  link_map* loaded = nullptr;
  std::error_code error;
  if (!::dladdr1(address, &info, reinterpret_cast<void**>(&loaded), RTLD_DL_LINKMAP) || !loaded) return {};
  // The program itself has no name there, and the one that it was started by may be anything.
  const bool program = !loaded->l_name || !*loaded->l_name;
  const auto file = program ? executable_path(error) : std::filesystem::canonical(loaded->l_name, error);
  return error ? std::filesystem::path() : file;
}

void* Library::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace tachy::os
