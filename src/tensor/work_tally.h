// What ops would do, counted while a measure run goes through them: multiply-adds of what kind in which numbers, and the
// bytes that must pass through memory. A GPU's rates make a time of it (estimate/time_plan.h).
//
// Ops count into the tally of their thread (ops/count_work.h), if there is one, as allocations are labelled by their
// thread's (MemoryLabel): a measure run stays in its thread.
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

// pass: whatever only reads and writes memory. transfer: from the host to a device, beside other work.
enum class WorkKind { pass, product, attention, convolution, transfer };
const char* work_kind_name(WorkKind kind);

struct OpWork {
  std::string_view op;  // a name that lives as long as the program
  WorkKind kind = WorkKind::pass;
  DType numbers = DType::f32;   // that are multiplied; of a pass: that it is about
  double flops = 0, bytes = 0;  // of one call: multiply-adds times two; what is read and written, once each
  int64_t calls = 1;
};

class WorkTally {
 public:
  // Of one stage of a run, in the order of their first calls.
  using Stage = std::pair<std::string, std::vector<OpWork>>;

  void begin_stage(
      std::string_view name);  // what is noted from here on is that stage's, also where it had a part before
  void note(const OpWork& work);
  // What was noted since `before`, a copy of this, stands for `times` times as many calls.
  void repeat_since(const WorkTally& before, int64_t times);
  std::vector<Stage> stages() const;

  // The tally of this thread, or null; and who sets it.
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

// Of the tensors that are defined.
double bytes_of(std::initializer_list<Tensor> tensors);

}  // namespace tachy
