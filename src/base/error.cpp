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

}  // namespace tachy
