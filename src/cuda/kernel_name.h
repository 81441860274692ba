// Makes a kernel's name for people to read, without namespaces, template arguments and parameters.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace tachy::cuda {

inline std::string short_kernel_name(const char* symbol) {
  int status = 0;
  char* plain = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : symbol;
  std::free(plain);
  constexpr std::string_view kUnnamed = "(anonymous namespace)";  // most of our kernels are in one
  size_t end = name.find_first_of("<(");
  while (end != name.npos && name.substr(end).starts_with(kUnnamed))
    name.erase(0, end + kUnnamed.size()), end = name.find_first_of("<(");
  name = name.substr(0, end);
  return name.substr(name.find_last_of(" :") + 1);  // npos + 1 is 0
}

}  // namespace tachy::cuda
