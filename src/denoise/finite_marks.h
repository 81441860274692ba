// Tells afterwards whether what the steps of a block predict is finite. A check that waits for the device in
// every step would keep the host from queueing the whole block. Each step therefore has a mark in the
// device's memory, which is read together with the block's frames, before any of them is shown. The first
// mark that is set tells which step was at fault.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

class FiniteMarks {
 public:
  FiniteMarks() = default;
  // `marks` is [steps + 1] i32, where the stream computes; the last one is the decoder's.
  explicit FiniteMarks(const Tensor& marks) : marks_(marks) {}

  int64_t steps() const { return marks_.numel() - 1; }
  Tensor decoded() const { return marks_.slice(0, steps(), steps() + 1); }

  void clear(Stream& stream) const { zero(marks_, stream); }
  void note_step(int step, const Tensor& prediction, Stream& stream) const {
    ops::mark_nonfinite(prediction, marks_.slice(0, step, step + 1), stream);
  }

  static std::string of_step(int step, int64_t steps) {
    return fmt::format("denoise: the transformer's output holds NaN or Inf at step {} of {}", step + 1,
                       steps);
  }
  // Checks the marks that were fetched. Throws numerical, naming the step.
  static void expect_steps(std::span<const int32_t> fetched) {
    for (size_t i = 0; i + 1 < fetched.size(); ++i)
      check(fetched[i] == 0, ErrorCode::numerical, "{}",
            of_step(static_cast<int>(i), static_cast<int64_t>(fetched.size()) - 1));
  }
  // Fetches the marks itself; this waits for the work that was queued before.
  void expect_steps(Stream& stream) const {
    std::vector<int32_t> fetched(static_cast<size_t>(marks_.numel()));
    download(marks_, fetched.data(), stream);
    expect_steps(std::span<const int32_t>(fetched));
  }

 private:
  Tensor marks_;
};

}  // namespace tachy
