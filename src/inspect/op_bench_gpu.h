// A case on a GPU: made once, and run there many times on the same memory, as Bench does on the host.
#pragma once

#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "inspect/op_runner_impl.h"

namespace tachy {

class GpuBench {
 public:
  // blank: without values of its own, which copy_values() then gives it.
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
  void reset();        // inputs back to their values, outputs to NaN (every byte 0xff)

  // The arena's size is what a measure run of this implementation asks for.
  void prepare(const std::string& impl);
  void queue(const std::string& impl);
  void run(const std::string& impl);  // all of it, and waits

  std::vector<std::vector<char>> result_bytes();    // of the blocks that hold outputs
  std::vector<std::vector<float>> result_values();  // of each output
  std::string damage();                             // "" or what was changed that should not have been

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

// The elements of a host tensor in their order, as float32 (op_compare_gpu.cpp).
std::vector<float> values_of(const Tensor& t);

// The definition's results, made once a case.
struct Expected {
  std::vector<std::vector<float>> reference, working;  // of each output
};
Expected define_for_gpu(const OpCase& op_case, uint64_t seed, DType dtype, ThreadPool& pool);

// Runs an implementation; its results against those. factor raises the tolerance.
void compare_on_gpu(GpuBench& bench, const Expected& expected, const std::string& impl, double factor,
                    OpResult& result);

// Mode perf (op_timing_gpu.cpp).
void time_on_gpu(GpuBench& first, const OpCase& op_case, const OpRunnerOptions& options, ThreadPool& pool,
                 const std::string& impl, const GpuCeilings& ceilings, OpResult& result);

}  // namespace tachy
