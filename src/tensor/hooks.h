// Objects that watch a run and may end it. One that is null costs a single branch.
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
  // If set to true, the run ends with ErrorCode::cancelled at its next check.
  const std::atomic<bool>* cancel = nullptr;
  // While it is true, the run waits at its next check (hold.h).
  const std::atomic<bool>* hold = nullptr;
  // How many others wait for what the run is making, such as a part of the model; above 0 it does not hold.
  const std::atomic<int>* awaited = nullptr;
  Profiler* profiler = nullptr;  // is told of the ranges of a run
  // These two are used only in a measure run:
  uint64_t* flops = nullptr;         // counts the multiply-adds (times two) of products
  ops::PickRecord* picks = nullptr;  // notes which implementation each op gets
  // This one is used only in a computing run:
  ops::PickCheck* planned = nullptr;  // compares each choice with the one in the plan
};

}  // namespace tachy
