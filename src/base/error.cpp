#include "base/error.h"

namespace tachy {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not found";
    case ErrorCode::out_of_memory:
      return "out of memory";
    case ErrorCode::device:
      return "device";
    case ErrorCode::io:
      return "input/output";
    case ErrorCode::corrupt:
      return "corrupt file";
    case ErrorCode::numerical:
      return "numerical";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

void fail_filled(ErrorCode code, const char* text, const std::string* fields, size_t count) {
  std::string filled(text);
  size_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = filled.find("{}", from);
    if (at == std::string::npos) break;
    filled.replace(at, 2, fields[i]);
    from = at + fields[i].size();
  }
  throw Error(code, std::move(filled));
}

}  // namespace tachy
