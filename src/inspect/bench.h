// Times every op on shapes of real models and a model's own stages, against what this machine can do at most.
//
// % of the roofline = the least time in which this machine could move the case's bytes and do its flops
// (cpu/roofline.h, measured in the same run with the same threads), over the median time. Two reports are
// compared line by line: faster or slower only beyond a threshold that grows with the noise of both.
//
// On a GPU the roofline is a copy of 512 MiB and the library's 8192³ product of random values, in the same
// run; ops run from graphs that find the cache cold (op_runner.h), a model's steps as in a generation
// (captured and replayed), its parts by CUDA events.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cpu/machine.h"
#include "cpu/roofline.h"
#include "inspect/op_runner.h"

namespace tachy {

inline constexpr double kLargeFlops = 60e9;

struct BenchOptions {
  std::string filter;           // as of OpRunnerOptions; "model" times only the model
  std::filesystem::path model;  // a model folder, or "": ops only
  std::string level = "safe";
  std::string device = "cpu";  // "cuda", "cuda:1", "auto"
  std::string dtype;           // on a GPU: f32, f16 or bf16; "": the level's
  int threads = 0;             // 0: all this process may use
  double seconds_per_case = 0.15;
  bool all_implementations = false;           // not only the one a model gets
  std::vector<std::string> cases = {"real"};  // and "tiny", "odd", "video"
  bool ops = true;
  bool large = false;  // also cases of more than kLargeFlops, which take seconds each
  std::function<void(const std::string&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct BenchLine {
  std::string id;  // "gemm:1152x384x384-…:onednn", "model:step"
  double median_us = 0, spread = 0;
  int repeats = 0;
  double gb_per_s = 0, gflops = 0;  // 0: not applicable
  double roofline = 0;              // share of the most this machine could do
  std::string bound;                // what limits it there: "memory" or "compute"
};

// The GPU of a report; no name: it is of the CPU.
struct BenchGpu {
  std::string name, capability, driver, cuda, dtype;
  std::vector<std::pair<std::string, std::string>> libraries;
  double copy_gb_per_s = 0, matmul_gflops = 0;
  // The least time for so many bytes and flops.
  double seconds(double bytes, double flops) const;
};

struct BenchReport {
  std::string version, level;
  int threads = 1;
  cpu::Machine machine;
  cpu::Roofline one, all;  // on one thread, on `threads`; of a CPU report
  BenchGpu gpu;
  std::vector<BenchLine> lines;
};

void check_bench(const BenchOptions& options);  // throws when they cannot work, in no time
BenchReport run_bench(const BenchOptions& options);

nlohmann::json to_json(const BenchReport& report);
BenchReport bench_from_json(const nlohmann::json& j, const std::string& name);  // throws corrupt

enum class Verdict { faster, same, slower, added, gone };
const char* verdict_name(Verdict verdict);
struct BenchComparison {
  std::string id;
  double before_us = 0, after_us = 0;
  double change = 0;     // after / before − 1
  double threshold = 0;  // of |change|: max(5 %, 3·√(spread² + spread²))
  Verdict verdict = Verdict::same;
};
std::vector<BenchComparison> compare_bench(const BenchReport& before, const BenchReport& after);

}  // namespace tachy
