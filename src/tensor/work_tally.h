// Counts what ops would do while a measure run goes through them: multiply-adds by kind and dtype, and the
// bytes that must pass through memory. With a GPU's rates this gives a time (estimate/time_plan.h).
//
// Ops count into the tally of their thread (ops/count_work.h), if there is one, just as allocations are
// labelled by thread (MemoryLabel): a measure run stays in its thread.
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

// pass: an op that only reads and writes memory. transfer: from the host to a device, beside other work.
enum class WorkKind { pass, product, attention, convolution, transfer };
const char* work_kind_name(WorkKind kind);

struct OpWork {
  std::string_view op;  // a name that lives as long as the program
  WorkKind kind = WorkKind::pass;
  DType numbers = DType::f32;  // dtype of the factors; for a pass, of its main operand
  // For one call: multiply-adds times two; bytes read and written, each counted once.
  double flops = 0, bytes = 0;
  int64_t calls = 1;
};

class WorkTally {
 public:
  // A stage of a run and its work, in the order of the first calls.
  using Stage = std::pair<std::string, std::vector<OpWork>>;

  // Later notes belong to that stage, even if it had a part before.
  void begin_stage(std::string_view name);
  void note(const OpWork& work);
  // Counts what was noted since `before`, a copy of this object, as `times` times as many calls.
  void repeat_since(const WorkTally& before, int64_t times);
  std::vector<Stage> stages() const;

  // The tally of this thread, or null, and the class that sets it.
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

// Bytes of the tensors that are defined.
double bytes_of(std::initializer_list<Tensor> tensors);

}  // namespace tachy
