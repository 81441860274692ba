// Runs one case on a GPU: every implementation in every mode. The definition runs on the CPU with the same
// values, rounded as the GPU holds them.
#include <memory>
#include <optional>

#include "cuda/gpu.h"
#include "cuda/graph.h"
#include "inspect/op_bench_gpu.h"

namespace tachy {
namespace {

// Mode capture: a replayed graph gives the same bytes as a call.
void compare_replay(GpuBench& bench, cuda::Gpu& gpu, const std::string& impl, OpResult& result) {
  bench.run(impl);
  const auto eager = bench.result_bytes();
  const auto graph = cuda::capture(gpu, [&] { bench.queue(impl); });
  bench.reset();
  graph->launch();
  gpu.synchronize();
  result.ok = bench.result_bytes() == eager;
  result.detail = result.ok ? fmt::format("{} nodes", graph->nodes()) : "a replayed graph gives other bytes";
}

}  // namespace

void run_case_on_gpu(const OpRunnerOptions& options, const OpCase& op_case, const std::string& impl_prefix,
                     ThreadPool& pool, const GpuCeilings& ceilings, std::vector<OpResult>& results) {
  OpResult blank{.op = op_case.op,
                 .case_name = op_case.name,
                 .seed = options.seed,
                 .flops = op_case.flops,
                 .kind = op_case.kind,
                 .on_gpu = true,
                 .dtype = options.dtype};
  std::unique_ptr<GpuBench> bench;
  try {
    bench = std::make_unique<GpuBench>(op_case, options.seed, options, pool, false);
  } catch (const std::exception& error) {
    blank.impl = "make", blank.mode = "make", blank.ok = false, blank.detail = error.what();
    results.push_back(blank);
    return;
  }
  std::optional<Expected> expected;
  for (const std::string& impl : bench->op().impls) {
    if (!wants_impl(options, impl_prefix, impl)) continue;
    Arena arena;
    const std::optional<Refusal> why_not = bench->op().why_not(impl, bench->stream(&arena));
    if (why_not && why_not->why == Refusal::Why::other_device) continue;  // the entry is for the CPU
    if (options.picked_only && impl_prefix.empty() && impl != bench->op().choose(bench->stream(&arena)).impl)
      continue;
    const auto add = [&](const char* mode, auto&& body) {
      OpResult result = blank;
      result.impl = impl;
      results.push_back(attempt(std::move(result), mode, why_not ? why_not->text() : "", body));
    };
    if (options.ref)
      add("ref", [&](OpResult& r) {
        if (!expected) expected = define_for_gpu(op_case, options.seed, options.dtype, pool);
        compare_on_gpu(*bench, *expected, impl, bench->op().factor * op_case.gpu_factor, r);
      });
    if (options.bitwise)
      add("bitwise", [&](OpResult& r) {
        bench->run(impl);
        const auto once = bench->result_bytes();
        bench->run(impl);
        if (bench->result_bytes() != once) r.ok = false, r.detail = "two runs differ";
      });
    if (options.canary)
      add("canary", [&](OpResult& r) {
        bench->run(impl);
        r.detail = bench->damage();
        r.ok = r.detail.empty();
      });
    if (options.capture && !op_case.waits)
      add("capture", [&](OpResult& r) { compare_replay(*bench, *options.gpu, impl, r); });
    if (options.perf)
      add("perf", [&](OpResult& r) { time_on_gpu(*bench, op_case, options, pool, impl, ceilings, r); });
  }
}

}  // namespace tachy