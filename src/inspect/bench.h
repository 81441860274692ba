// Times every op on shapes of real models, and a model's own stages, and compares them with this machine's
// limits.
//
// A case's share of the roofline is the least time in which this machine could move its bytes and do its
// flops (cpu/roofline.h, measured in the same run with the same threads), divided by the median time. Two
// reports are compared line by line: a line counts as faster or slower only beyond a threshold that grows
// with the noise of both.
//
// On a GPU the roofline is made of a copy of 512 MiB and the library's 8192³ product of random values, in the
// same run. Ops run from graphs that find the cache cold (op_runner.h), a model's steps run as in a
// generation (captured and replayed), and its parts are timed by CUDA events.
//
// For a model that makes videos block by block (Self-Forcing, Matrix-Game 2; worlds/world_run.h), blocks are
// timed: whole ones as a session runs them, then some more with a profiler for the components
// (block_monitor.h). On a GPU the latter run without graphs, inside which nothing can be timed. Times end
// where the frames are seen: on the host.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cpu/machine.h"
#include "cpu/roofline.h"
#include "inspect/op_runner.h"
#include "report/block_monitor.h"

namespace tachy {

inline constexpr double kLargeFlops = 60e9;
inline constexpr int kBlocks = 40;

struct BenchOptions {
  std::string filter;           // as in OpRunnerOptions; "model" times only the model
  std::filesystem::path model;  // a model folder, or "": ops only
  std::string level = "safe";
  std::string device = "cpu";     // "cuda", "cuda:1", "auto"
  std::string dtype;              // on a GPU: f32, f16 or bf16; "": the level decides
  std::string vae_math = "auto";  // as in VideoRequest
  int threads = 0;                // 0: all that this process may use
  double seconds_per_case = 0.15;
  bool all_implementations = false;           // whether to time all of them, not only the one that a model
                                              // gets
  std::vector<std::string> cases = {"real"};  // also possible: "tiny", "odd", "video"
  bool ops = true;
  bool large = false;  // whether to time cases of more than kLargeFlops, too, which take seconds each
  // For a model that makes videos block by block. If `blocks` is given, any text-to-video model counts as
  // one.
  std::optional<int> blocks;  // number of blocks to time; left out: kBlocks, or fewer if they take long
  int width = 0, height = 0;  // 0: the model's own
  std::optional<int> window, steps;
  bool graphs = true;  // on a GPU
  std::function<void(const std::string&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct BenchLine {
  std::string id;  // "gemm:1152x384x384-…:onednn", "model:step"
  double median_us = 0, spread = 0;
  int repeats = 0;
  double gb_per_s = 0, gflops = 0;  // 0: not applicable
  double roofline = 0;              // share of the most that this machine could do
  std::string bound;                // the limiting factor there: "memory" or "compute"
  // These are for blocks and their components; 0: not applicable.
  double mean_us = 0, p95_us = 0, share = 0;  // `share` is the part of a block's mean time
  bool of_blocks() const { return mean_us > 0; }
};

// The model and the settings of blocks that were timed; empty kind: no blocks were timed.
struct BenchBlocks {
  std::string kind, model, dtype;
  int width = 0, height = 0, steps = 0;
  int64_t block = 0, frames = 0;  // latent frames and video frames in a block
  int64_t window = 0, blocks = 0;
  bool graphs = false;
  // Bytes of Buffers and arenas, as planned and as held at the worst moment.
  uint64_t plan_bytes = 0, held_bytes = 0;
  uint64_t taken_bytes = 0;  // a GPU's memory in use after the blocks, with libraries and graphs
};

// The GPU of a report; empty name: the report is about the CPU.
struct BenchGpu {
  std::string name, capability, driver, cuda, dtype;
  std::vector<std::pair<std::string, std::string>> libraries;
  double copy_gb_per_s = 0, matmul_gflops = 0;
  // Returns the least time for this many bytes and flops.
  double seconds(double bytes, double flops) const;
};

struct BenchReport {
  std::string version, level, vae_math = "auto";
  int threads = 1;
  cpu::Machine machine;
  cpu::Roofline one, all;  // in a CPU report: with one thread, and with `threads`
  BenchGpu gpu;
  BenchBlocks blocks;
  std::vector<BenchLine> lines;
  std::vector<ProfileEvent> events;  // ranges of the blocks that were timed by component; not stored with the
                                     // report
};

void check_bench(const BenchOptions& options);  // throws at once if the options cannot work
BenchReport run_bench(const BenchOptions& options);

nlohmann::json to_json(const BenchReport& report);
BenchReport bench_from_json(const nlohmann::json& j, const std::string& name);  // throws corrupt

std::string describe_blocks(const BenchReport& report);  // says what was timed, in one line; "" if no blocks
                                                         // were
std::string block_lines(const BenchReport& report);      // the table of blocks
// bench_table adds both of these after the rest of the report: for people, and in a form that can be read
// back (bench_table.cpp).
std::string bench_table(const BenchReport& report);
BenchReport bench_from_table(const std::string& text, const std::string& name);  // throws corrupt
// Reads a stored report, JSON or table. Throws not_found and corrupt.
BenchReport read_bench(const std::filesystem::path& path);

enum class Verdict { faster, same, slower, added, gone };
const char* verdict_name(Verdict verdict);
struct BenchComparison {
  std::string id;
  double before_us = 0, after_us = 0;
  double change = 0;  // after / before − 1
  // True for lines of blocks. `improvement` is the part of its time that a line has lost, 1 - after / before,
  // for mean, median and P95.
  bool of_blocks = false;
  TimeSummary improvement;
  double threshold = 0;  // for |change|: max(5 %, 3·√(spread² + spread²))
  Verdict verdict = Verdict::same;
};
std::vector<BenchComparison> compare_bench(const BenchReport& before, const BenchReport& after);

// Compares reports of blocks from different machines (bench_relative.cpp): how many times slower a component
// has become than the median component of its run, and a block than the run's multiply-adds. A change of all
// components alike by less than `factor` is not noticed.
struct RelativeLine {
  std::string id;
  double before_us = 0, after_us = 0;
  double slower = 0;  // how many times slower
  bool ok = true;     // whether it is not slower than the factor allows
};
std::vector<RelativeLine> compare_relative(const BenchReport& before, const BenchReport& after,
                                           double factor);

}  // namespace tachy
