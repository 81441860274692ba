// Who watches a run and may end it. What is null costs a branch.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/profile_range.h"

namespace tachy {

namespace ops {
class PickRecord;  // ops/pick_record.h
class PickCheck;
}  // namespace ops

struct Hooks {
  const std::atomic<bool>* cancel = nullptr;  // true: the run ends with ErrorCode::cancelled at its next look
  Profiler* profiler = nullptr;               // told of the ranges of a run
  // In a measure run only:
  uint64_t* flops = nullptr;         // counts the multiply-adds (times two) of products
  ops::PickRecord* picks = nullptr;  // notes which implementation each op gets
  // In a computing run only:
  ops::PickCheck* planned = nullptr;  // compares with what the plan noted
};

}  // namespace tachy
