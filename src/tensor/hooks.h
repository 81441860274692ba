// Objects that watch a run and may end it. Each one that is null costs one branch.
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
  // True: the run ends with ErrorCode::cancelled at its next check.
  const std::atomic<bool>* cancel = nullptr;
  Profiler* profiler = nullptr;  // is told of the ranges of a run
  // In a measure run only:
  uint64_t* flops = nullptr;         // counts the multiply-adds (times two) of products
  ops::PickRecord* picks = nullptr;  // notes which implementation each op gets
  // In a computing run only:
  ops::PickCheck* planned = nullptr;  // compares with what the plan noted
};

}  // namespace tachy
