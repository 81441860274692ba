// The functions of the library that stands in for the kernels.
#pragma once

#include <string>

namespace tachy::cuda::standin {

int twice(int x);
std::string value_of(const char* name);  // by the program's env_string
void warn_of(const std::string& what);   // by the program's warn_line
[[noreturn]] void throw_unsupported(const std::string& text);

struct Counter {
  virtual ~Counter() = default;
  virtual int next() = 0;
};
Counter* make_counter();

}  // namespace tachy::cuda::standin
