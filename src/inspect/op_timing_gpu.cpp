// Mode perf on a GPU: replays a graph that rotates through enough copies of the tensors to find the cache
// cold, and measures the GPU's limits in the same run.
#include <algorithm>
#include <functional>
#include <memory>

#include "cuda/graph.h"
#include "inspect/op_bench_gpu.h"
#include "ops/gemm/gemm.h"

namespace tachy {
namespace {

// Returns sorted times of one call in µs, from rounds in which all() queues one call for each set.
std::vector<double> time_rounds(cuda::Gpu& gpu, const std::function<void()>& all, size_t sets, bool capture,
                                double budget_seconds) {
  // A replay takes some microseconds to begin and to end, which do not belong to the op: short ops share them
  // among a hundred calls, or as many as fill ten milliseconds.
  int turns = 1;
  std::unique_ptr<cuda::Graph> graph;
  if (capture) {
    const double once = cuda::device_us(gpu, all);
    turns = static_cast<int>(std::clamp(std::min(100.0 / static_cast<double>(sets), 1e4 / once), 1.0, 100.0));
    graph = cuda::capture(gpu, [&] {
      for (int turn = 0; turn < turns; ++turn) all();
    });
  }
  const auto round = [&] {
    if (graph)
      graph->launch();
    else
      all();
  };
  round();
  std::vector<double> times;
  for (double total = 0;
       times.size() < (total > 3e5 ? 3u : 5u) || (total < budget_seconds * 1e6 && times.size() < 300);) {
    const double us = cuda::device_us(gpu, round);
    times.push_back(us / static_cast<double>(sets) / turns), total += us;
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Returns the least bytes that the op must move with tensors of this dtype; the case counts float32.
double bytes_of_case(GpuBench& bench, const OpCase& op_case, DType dtype) {
  double wide = 0;
  for (auto& block : bench.memory().blocks()) {
    const double ratio = block.on_device && block.activation ? 4.0 / dtype_size(dtype) : 1.0;
    wide += ratio * static_cast<double>(block.bytes) * (block.input && block.output ? 2 : 1);
  }
  return op_case.bytes * bench.footprint() / wide;
}

}  // namespace

void time_on_gpu(GpuBench& first, const OpCase& op_case, const OpRunnerOptions& options, ThreadPool& pool,
                 const std::string& impl, const GpuCeilings& ceilings, OpResult& result) {
  cuda::Gpu& gpu = *options.gpu;
  const double footprint = first.footprint(), cache = static_cast<double>(gpu.info().l2_bytes);
  const double spare = 0.5 * static_cast<double>(gpu.free_bytes());
  const auto sets = static_cast<size_t>(std::clamp(std::min(4 * cache, spare) / footprint + 1, 2.0, 64.0));
  std::vector<std::unique_ptr<GpuBench>> more;
  for (size_t i = 1; i < sets; ++i) {
    more.push_back(std::make_unique<GpuBench>(op_case, options.seed, options, pool, true));
    more.back()->copy_values(first);
  }
  const auto bench = [&](size_t i) -> GpuBench& { return i == 0 ? first : *more[i - 1]; };
  for (size_t i = 0; i < sets; ++i) bench(i).prepare(impl), bench(i).queue(impl);
  gpu.synchronize();
  const auto all = [&] {
    for (size_t i = 0; i < sets; ++i) bench(i).queue(impl);
  };
  const std::vector<double> times = time_rounds(gpu, all, sets, !op_case.waits, options.perf_seconds);
  result.median_us = times[times.size() / 2];
  result.repeats = static_cast<int>(times.size());
  result.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / 2 / result.median_us;
  const double bytes = bytes_of_case(first, op_case, options.dtype);
  result.gb_per_s = bytes / result.median_us * 1e-3, result.gflops = op_case.flops / result.median_us * 1e-3;
  const double of_copy = ceilings.copy_gb_per_s > 0 ? result.gb_per_s / ceilings.copy_gb_per_s : 0;
  const double of_matmul = ceilings.matmul_gflops > 0 ? result.gflops / ceilings.matmul_gflops : 0;
  result.roofline = std::max(of_copy, of_matmul);
  result.bytes = bytes;
  result.detail = fmt::format(
      "{:9.2f} us  {:7.3f} TB/s  {:5.1f} % of copy  {:8.2f} TFLOP/s{}  ({} sets, best {:.2f} us)",
      result.median_us, result.gb_per_s * 1e-3, 100 * of_copy, result.gflops * 1e-3,
      of_matmul > 0 ? fmt::format("  {:5.1f} % of matmul", 100 * of_matmul) : "", sets, times.front());
}

GpuCeilings measure_ceilings(cuda::Gpu& gpu, DType dtype, ThreadPool& pool) {
  GpuCeilings out;
  const auto best = [&](const std::function<void()>& work) {
    std::vector<double> times;
    work();
    for (int i = 0; i < 11; ++i) times.push_back(cuda::device_us(gpu, work));
    std::sort(times.begin(), times.end());
    return times[5];
  };
  {
    const size_t bytes = size_t{1} << 29;
    const Buffer from(bytes, &gpu), to(bytes, &gpu);
    gpu.fill(from.data(), 0x3c, bytes);
    out.copy_gb_per_s =
        2e-3 * static_cast<double>(bytes) / best([&] { gpu.copy(to.data(), from.data(), bytes); });
  }
  try {
    const int64_t n = 8192;
    CaseMemory memory(1, CaseKind::real, {.dtype = dtype, .gpu = &gpu, .device = &gpu, .pool = &pool});
    ops::GemmArgs args{.x = memory.normal({n, n})};
    args.weight = memory.normal({n, n}), args.y = memory.output({n, n});
    memory.finish();
    Arena measure;
    Stream stream{
        .arena = &measure, .pool = &pool, .gpu = &gpu, .memory = &gpu, .precision = {.activation = dtype}};
    ops::gemm(args, stream);
    Arena arena(measure.peak(), &gpu);
    stream.arena = &arena;
    out.matmul_gflops = 2e-3 * static_cast<double>(n * n * n) / best([&] { ops::gemm(args, stream); });
  } catch (const Error& error) {
    out.note = fmt::format("matmul ceiling not measured: {}", error.what());
  }
  return out;
}

}  // namespace tachy
