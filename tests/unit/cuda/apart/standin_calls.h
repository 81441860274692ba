#pragma once

#include <string>

#include "standin.h"

namespace tachy::cuda::standin {

int call_twice(int x);
int call_by_table(int x);
std::string call_value_of(const char* name);
void call_warn_of(const std::string& what);
void call_throw(const std::string& text);
Counter* call_make_counter();

}  // namespace tachy::cuda::standin
