// A case on a GPU: it is made once and run many times on the same memory, like Bench on the host.
#pragma once

#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "inspect/op_runner_impl.h"

namespace tachy {

class GpuBench {
 public:
  // `blank` says that the case gets no values of its own; copy_values() then supplies them.
  GpuBench(const OpCase& op_case, uint64_t seed, const OpRunnerOptions& options, ThreadPool& pool,
           bool blank);

  const BoundOp& op() const { return op_; }
  CaseMemory& memory() { return memory_; }
  Stream stream(Arena* arena) const {
    return {
        .arena = arena, .pool = &pool_, .gpu = &gpu_, .memory = &gpu_, .precision = {.activation = dtype_}};
  }

  void copy_values(GpuBench& from);
  double footprint();  // bytes of every input and output once
  void reset();        // resets inputs to their values and outputs to NaN (every byte 0xff)

  // The arena gets the size that a measure run of this implementation needs.
  void prepare(const std::string& impl);
  void queue(const std::string& impl);
  void run(const std::string& impl);  // runs the whole case, and waits

  std::vector<std::vector<char>> result_bytes();    // bytes of the blocks that hold outputs
  std::vector<std::vector<float>> result_values();  // values of each output
  std::string damage();  // "", or a description of what was changed but should not have been

 private:
  std::vector<char> download(const char* data, int64_t bytes, bool on_device);

  cuda::Gpu& gpu_;
  ThreadPool& pool_;
  CaseMemory memory_;
  BoundOp op_;
  std::vector<Buffer> pristine_;
  Arena arena_;
  DType dtype_;
};

// Returns the elements of a host tensor in their order, as float32 (op_compare_gpu.cpp).
std::vector<float> values_of(const Tensor& t);

// The definition's results, made once for each case.
struct Expected {
  std::vector<std::vector<float>> reference, working;  // for each output
};
Expected define_for_gpu(const OpCase& op_case, uint64_t seed, DType dtype, ThreadPool& pool);

// Runs an implementation and compares its results with the definition's. `factor` raises the tolerance.
void compare_on_gpu(GpuBench& bench, const Expected& expected, const std::string& impl, double factor,
                    OpResult& result);

// Times a case in mode perf (op_timing_gpu.cpp).
void time_on_gpu(GpuBench& first, const OpCase& op_case, const OpRunnerOptions& options, ThreadPool& pool,
                 const std::string& impl, const GpuCeilings& ceilings, OpResult& result);

}  // namespace tachy
