// Error codes as callers see them: the command line's exit codes and the C interface's return values.
#pragma once

#include "base/error.h"

namespace tachy {

// The exit code if `validate` found a miss, `doctor` a failed op, or `compare` a slower line (--strict).
constexpr int kExitMiss = 10;

constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 2;
    case ErrorCode::not_found:
      return 3;
    case ErrorCode::corrupt:
      return 4;
    case ErrorCode::unsupported:
      return 5;
    case ErrorCode::io:
      return 6;
    case ErrorCode::out_of_memory:
      return 7;
    case ErrorCode::numerical:
      return 8;
    case ErrorCode::device:
      return 9;
    case ErrorCode::cancelled:
      return 130;
    case ErrorCode::internal:
      return 1;
  }
  return 1;
}

}  // namespace tachy
