// Counts what ops would do while a measure run goes through them: the multiply-adds by kind and dtype, and
// the bytes that must pass through memory. With the rates of a GPU they give a time (estimate/time_plan.h).
//
// A measure run stays in one thread, so ops count into the tally of their thread if there is one
// (ops/count_work.h), just as MemoryLabel labels the allocations of a thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// A pass is an op that only reads and writes memory. A transfer copies from the host to a device during other
// work.
enum class WorkKind { pass, product, attention, convolution, transfer };
const char* work_kind_name(WorkKind kind);

struct OpWork {
  std::string_view op;  // a name that lives as long as the program
  WorkKind kind = WorkKind::pass;
  DType numbers = DType::f32;  // dtype of the factors, or of a pass's main operand
  // Per call: multiply-adds times two, and bytes read or written, each counted once.
  double flops = 0, bytes = 0;
  int64_t calls = 1;
};

class WorkTally {
 public:
  // A stage of a run and its work, in the order of the first calls.
  using Stage = std::pair<std::string, std::vector<OpWork>>;

  // Later notes belong to the stage with this name, even if the stage already has some.
  void begin_stage(std::string_view name);
  void note(const OpWork& work);
  // Counts everything that was noted since `before`, a copy of this object, `times` times instead of once.
  void repeat_since(const WorkTally& before, int64_t times);
  std::vector<Stage> stages() const;

  // Returns this thread's tally, or null. The class after it sets the tally.
  static WorkTally* current();
  class Counting {
   public:
    explicit Counting(WorkTally& tally);
    ~Counting();
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;

   private:
    WorkTally* before_;
  };

 private:
  using Key = std::tuple<size_t, std::string_view, WorkKind, DType, double, double>;
  std::vector<std::string> names_;
  size_t stage_ = 0;
  std::map<Key, int64_t> calls_;
};

// Sums the bytes of those tensors that are defined.
double bytes_of(std::initializer_list<Tensor> tensors);

}  // namespace tachy
