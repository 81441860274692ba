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

void* Library::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace tachy::os
