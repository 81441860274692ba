// Checks and times every implementation of every op on the op's cases.
//
//   ref      each implementation against the definition, with a single tolerance rule: R is the definition, L
//            the same with float32 inside; max|y−R| <= 2·max|L−R| + 2 ulp(max|R|), and the same for the RMS.
//            Outputs start as NaN. Codes (e4m3) may also be one step off, but only a sixteenth of them.
//   bitwise  repeated runs, and runs with any number of threads from 1 to one more than asked for, give equal
//            bytes (the definition is slow: it has two runs, the second with one more thread)
//   canary   outputs start poisoned; bytes around and between them and all inputs are unchanged
//   perf     median µs and spread, GB/s and GFLOP/s from the case's own bytes and flops; caches are as warm
//            as repetition makes them
//
// On a GPU (options.gpu) the same cases are made there with activations of `dtype`, to which values are
// rounded first: R is the definition on the CPU, and L is R rounded as each output is stored. There is one
// more mode, and perf is different:
//   capture  the op can be recorded in a CUDA graph (so it neither allocates nor waits), and replaying it
//            gives the same bytes
//   perf     replays of a graph that rotates through enough copies of the tensors to find the cache cold
//
// To repeat a failure, pass its `id` ("attention:2x13x77x3x20:cpu") as the filter, with the same seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_case.h"

namespace tachy {

// Limits of a GPU, measured in the same run; 0: not measured.
struct GpuCeilings {
  double copy_gb_per_s = 0;  // rate of copying 512 MiB, read and written
  double matmul_gflops = 0;  // rate of the library's best product of 8192 x 8192 x 8192 random values
  std::string note;          // the reason why something was not measured
};
GpuCeilings measure_ceilings(cuda::Gpu& gpu, DType dtype, ThreadPool& pool);

// Keeps the results of the definitions by case and seed, so that another run_ops() with the same seed need
// not compute them again, for instance with another instruction set.
struct OpDefinitions {
  struct Outputs {
    std::vector<char> definition, working;
    std::string damage;  // what the definition changed but should not have
  };
  std::map<std::pair<std::string, uint64_t>, Outputs> of;
};

struct OpRunnerOptions {
  // "", "op", "op:case" or "op:case:implementation". Parts match as prefixes (an op's whole name matches only
  // that op, and a case or an implementation with a $ behind it only that one); "" matches all.
  std::string filter;
  bool ref = true, bitwise = true, canary = true, perf = false;
  bool tiny = true, odd = true, real = false, video = false;
  uint64_t seed = 1;
  int threads = 2;            // threads of the runs; bitwise compares with 1 and with threads + 1
  double perf_seconds = 0.3;  // timing budget for each case and implementation
  cuda::Gpu* gpu = nullptr;   // the GPU that runs the cases, with activations of `dtype`; null: the CPU does
  DType dtype = DType::f32;
  bool capture = true;                    // whether to use mode capture on a GPU
  const GpuCeilings* ceilings = nullptr;  // for perf on a GPU, if they have already been measured
  bool picked_only = false;               // runs only the implementation that a model would get
  std::vector<std::string> without;       // implementations of these names are left out
  bool definitions = false;               // checks what a model at level none uses
  double max_flops = 1e18;                // larger cases are left out
  double max_perf_flops = 1e15;           // perf leaves larger cases out
  double max_definition_flops = 1e15;     // plain loops are slow: larger cases skip what needs the definition
  OpDefinitions* kept = nullptr;          // on the CPU: results of definitions are taken from there, and
                                          // stored there
  std::function<void(const ops::OpCase&)> started;  // is told of each case, for progress
  // Is told of a case and its arguments once they are made; only on the CPU.
  std::function<void(const ops::OpCase&, const ops::BoundOp&)> made;
};

struct OpResult {
  std::string op, case_name, impl, mode;
  bool ok = true, skipped = false;
  std::string detail;  // the errors and their bounds, or the reason for a failure or a skip
  uint64_t seed = 0;
  double error = 0, bound = 0;                     // for ref: the largest error and its bound
  double median_us = 0, gb_per_s = 0, gflops = 0;  // for perf
  // For perf on a GPU: the share that is reached of the copy's bytes per second or of the matmul's flops per
  // second, whichever is greater.
  double roofline = 0;
  double spread = 0;  // for perf: half of the times' interquartile range, relative to the median
  int repeats = 0;
  double bytes = 0, flops = 0;  // of the case
  Compute compute = Compute::f32;
  ops::CaseKind kind = ops::CaseKind::tiny;
  bool on_gpu = false;  // whether it ran on a GPU, with activations of `dtype`
  DType dtype = DType::f32;
  std::string id() const { return op + ":" + case_name + ":" + impl; }
  std::string repeat() const {
    return "repeat with `filter` " + id() + " `seed` " + std::to_string(seed) +
           (on_gpu ? " `device` cuda `dtype` " + std::string(dtype_name(dtype)) : "");
  }
};

std::vector<ops::OpCase> all_op_cases();
std::vector<OpResult> run_ops(const OpRunnerOptions& options);
std::vector<OpResult> run_ops(const OpRunnerOptions& options, const std::vector<ops::OpCase>& cases);

}  // namespace tachy
