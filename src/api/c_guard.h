// Errors of the C interface: the code that a call returns, and the text of the thread's last error.
#pragma once

#include <new>
#include <string>

#include "api/exit_code.h"
#include "base/error.h"

namespace tachy {

inline std::string& c_last_error() {
  thread_local std::string text;
  return text;
}

template <class Body>
int guarded(Body&& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    c_last_error() = e.message();
    return exit_code(e.code());
  } catch (const std::bad_alloc&) {
    c_last_error() = "out of memory";
    return exit_code(ErrorCode::out_of_memory);
  } catch (const std::exception& e) {
    c_last_error() = e.what();
    return exit_code(ErrorCode::internal);
  }
}

}  // namespace tachy
