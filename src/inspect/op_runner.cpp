#include "inspect/op_runner.h"

#include <algorithm>
#include <array>

#include "cpu/widen.h"
#include "inspect/op_runner_impl.h"
#include "ops/codes.h"

namespace tachy {
namespace {

// Returns the values of all outputs of a kind, one after another: numbers (f32), or codes of one dtype.
std::vector<float> floats_of(const std::vector<char>& bytes, const std::vector<Tensor>& outputs, DType kind) {
  std::vector<float> values;
  const char* from = bytes.data();
  for (const Tensor& t : outputs) {
    if ((ops::is_code(t.dtype) ? t.dtype : DType::f32) == kind) {
      const size_t first = values.size();
      values.resize(first + static_cast<size_t>(t.numel()));
      cpu::widen(from, kind, t.numel(), values.data() + first);
    }
    from += t.bytes();
  }
  return values;
}

// Compares one kind of outputs. The result shows the values that come closest to their bound.
void compare_values(const std::vector<float>& got, const std::vector<float>& reference,
                    const std::vector<float>& working, DType kind, double factor, OpResult& result) {
  const bool codes = kind != DType::f32;
  float highest = 0;
  for (float v : reference)
    if (std::isfinite(v)) highest = std::max(highest, std::abs(v));
  const double ulp =
      codes ? highest * kCodeUnit : static_cast<double>(std::nextafter(highest, INFINITY)) - highest;
  const std::vector<float> steps = codes ? code_steps(reference, kind) : std::vector<float>();
  const Distance allowed = distance(working, reference, steps), error = distance(got, reference, steps);
  const double bound = factor * (2 * allowed.max + 2 * ulp),
               rms_bound = factor * (2 * allowed.rms + 2 * ulp + code_rms(steps));
  const bool ok = error.same_specials && error.max <= bound && error.rms <= rms_bound;
  if (result.detail.empty() || (result.ok && !ok) || error.max * result.bound > result.error * bound) {
    result.error = error.max, result.bound = bound;
    result.detail =
        fmt::format("max {:.2e} (bound {:.2e}), rms {:.2e} (bound {:.2e}){}", error.max, bound, error.rms,
                    rms_bound, error.same_specials ? "" : ", NaN or Inf in other places");
  }
  result.ok = result.ok && ok;
}

void compare_with_definition(Bench& bench, const std::vector<char>& definition,
                             const std::vector<char>& working, const std::string& impl, ThreadPool& pool,
                             OpResult& result) {
  const std::vector<char> got = bench.run(impl, pool);
  if (!bench.op().has_working) {
    result.ok = got == definition;
    result.detail = result.ok ? "exact" : "expected the definition's bytes, got others";
    return;
  }
  const std::vector<Tensor>& outputs = bench.op().outputs;
  for (const DType kind : {DType::f32, DType::f8_e4m3, DType::i8}) {
    const auto reference = floats_of(definition, outputs, kind);
    if (!reference.empty())
      compare_values(floats_of(got, outputs, kind), reference, floats_of(working, outputs, kind), kind,
                     bench.op().factor, result);
  }
}

// pools[0] is the one that other modes use; the last one has the most threads. `known` has the bytes of a run
// on pools[0], for an implementation that is too slow for more than one further run; otherwise it is null.
void compare_runs(Bench& bench, const std::string& impl, std::vector<std::unique_ptr<ThreadPool>>& pools,
                  const std::vector<char>* known, OpResult& result) {
  const auto first = known ? *known : bench.run(impl, *pools[0]);
  if (!known && bench.run(impl, *pools[0]) != first) {
    result.ok = false, result.detail = "two runs differ";
    return;
  }
  for (size_t i = known ? pools.size() - 1 : 1; i < pools.size(); ++i)
    if (bench.run(impl, *pools[i]) != first) {
      result.ok = false, result.detail = fmt::format("{} threads give other bytes", pools[i]->threads());
      return;
    }
}

void time_runs(Bench& bench, const OpCase& op_case, const std::string& impl, ThreadPool& pool, double budget,
               OpResult& result) {
  bench.prepare(impl, pool);
  std::vector<double> times;
  bench.seconds(impl, pool);
  for (double total = 0;
       times.size() < (total < 4 * budget ? 5u : 3u) || (total < budget && times.size() < 1000);
       total += times.back())
    times.push_back(bench.seconds(impl, pool));
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  result.median_us = median * 1e6;
  result.repeats = static_cast<int>(times.size());
  result.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / 2 / median;
  result.gb_per_s = op_case.bytes / median * 1e-9, result.gflops = op_case.flops / median * 1e-9;
  result.detail =
      fmt::format("{:.1f} us, {:.2f} GB/s, {:.1f} GFLOP/s", result.median_us, result.gb_per_s, result.gflops);
}

// The three parts of OpRunnerOptions::filter.
class Filter {
 public:
  Filter(const std::string& text, const std::vector<OpCase>& cases) {
    for (size_t i = 0, begin = 0; i < 3 && begin <= text.size(); ++i) {
      const size_t end = std::min(text.find(':', begin), text.size());
      parts_[i] = text.substr(begin, end - begin);
      begin = end + 1;
    }
    // "rmsnorm" means only the op of that name, not rmsnorm_backward; "rms" means both.
    exact_ = std::any_of(cases.begin(), cases.end(), [&](const OpCase& c) { return c.op == parts_[0]; });
  }
  bool takes(const OpCase& c) const {
    return (exact_ ? c.op == parts_[0] : c.op.starts_with(parts_[0])) && fits_part(parts_[1], c.name);
  }
  const std::string& impl_prefix() const { return parts_[2]; }

 private:
  std::array<std::string, 3> parts_;
  bool exact_ = false;
};

bool wants(const OpRunnerOptions& options, const OpCase& c) {
  const bool kind = c.kind == CaseKind::tiny   ? options.tiny
                    : c.kind == CaseKind::odd  ? options.odd
                    : c.kind == CaseKind::real ? options.real
                                               : options.video;
  return kind && (options.gpu ? c.gpu : c.cpu) && c.flops <= options.max_flops;
}

OpDefinitions::Outputs definitions_of(Bench& bench, const OpCase& op_case, const OpRunnerOptions& options,
                                      ThreadPool& pool) {
  const auto run = [&] {
    OpDefinitions::Outputs out;
    out.definition = bench.run("ref", pool), out.damage = bench.damage();
    if (bench.op().has_working) out.working = bench.run("working", pool);
    return out;
  };
  if (!options.kept) return run();
  const auto key = std::pair(op_case.op + ":" + op_case.name, options.seed);
  const auto at = options.kept->of.find(key);
  return at != options.kept->of.end() ? at->second : options.kept->of.emplace(key, run()).first->second;
}

void run_case_on_cpu(const OpRunnerOptions& options, const OpCase& op_case, const std::string& impl_prefix,
                     std::vector<std::unique_ptr<ThreadPool>>& pools, std::vector<OpResult>& results) {
  ThreadPool& pool = *pools[0];
  Bench bench(op_case, options.seed);
  if (options.made) options.made(op_case, bench.op());
  OpDefinitions::Outputs known;
  const bool definable = op_case.flops <= options.max_definition_flops, defined = options.ref && definable;
  if (defined) known = definitions_of(bench, op_case, options, pool);
  for (const std::string& impl : bench.op().impls) {
    if (!wants_impl(options, impl_prefix, impl)) continue;
    Arena nothing;
    const Stream stream{.arena = &nothing, .pool = &pool, .precision = {.definitions = options.definitions}};
    if (options.picked_only && impl_prefix.empty() && impl != bench.op().choose(stream).impl) continue;
    const std::optional<Refusal> why_not = bench.op().why_not(impl, stream);
    const auto add = [&](const char* mode, auto&& body) {
      std::string reason = why_not ? why_not->text() : "";
      if (reason.empty() && !definable && (impl == "ref" || std::string_view(mode) == "ref"))
        reason = fmt::format("{:.1f} GFLOP are too much for the definition", op_case.flops * 1e-9);
      OpResult blank{.op = op_case.op, .case_name = op_case.name, .impl = impl, .seed = options.seed};
      blank.bytes = op_case.bytes, blank.flops = op_case.flops, blank.kind = op_case.kind;
      blank.compute = bench.op().compute;
      results.push_back(attempt(std::move(blank), mode, reason, body));
    };
    if (options.ref && impl != "ref")
      add("ref", [&](OpResult& r) {
        compare_with_definition(bench, known.definition, known.working, impl, pool, r);
      });
    if (options.bitwise)
      add("bitwise", [&](OpResult& r) {
        compare_runs(bench, impl, pools, defined && impl == "ref" ? &known.definition : nullptr, r);
      });
    if (options.canary)
      add("canary", [&](OpResult& r) {
        if (defined && impl == "ref") {
          r.detail = known.damage;
        } else {
          // The last run of mode bitwise left its outputs here, unless that mode failed or was not requested.
          if (!options.bitwise || !results.back().ok) bench.run(impl, pool);
          r.detail = bench.damage();
        }
        r.ok = r.detail.empty();
      });
    if (options.perf)
      add("perf", [&](OpResult& r) { time_runs(bench, op_case, impl, pool, options.perf_seconds, r); });
  }
}

}  // namespace

bool fits_part(std::string_view wanted, std::string_view name) {
  return wanted.ends_with('$') ? name == wanted.substr(0, wanted.size() - 1) : name.starts_with(wanted);
}

bool wants_impl(const OpRunnerOptions& options, std::string_view prefix, const std::string& impl) {
  return fits_part(prefix, impl) && std::ranges::find(options.without, impl) == options.without.end();
}

std::vector<OpResult> run_ops(const OpRunnerOptions& options) { return run_ops(options, all_op_cases()); }

std::vector<OpResult> run_ops(const OpRunnerOptions& options, const std::vector<OpCase>& cases) {
  require(options.threads >= 1, "op runner: expected at least 1 thread, got {}", options.threads);
  const Filter filter(options.filter, cases);
  std::vector<std::unique_ptr<ThreadPool>> pools;
  pools.push_back(std::make_unique<ThreadPool>(options.threads));
  for (int n = 1; n <= options.threads + 1 && options.bitwise; ++n)
    if (n != options.threads) pools.push_back(std::make_unique<ThreadPool>(n));
  GpuCeilings ceilings;
  if (options.gpu && options.perf)
    ceilings =
        options.ceilings ? *options.ceilings : measure_ceilings(*options.gpu, options.dtype, *pools[0]);
  std::vector<OpResult> results;
  for (const OpCase& op_case : cases) {
    if (!wants(options, op_case) || !filter.takes(op_case)) continue;
    if (options.started) options.started(op_case);
    if (options.perf && op_case.flops > options.max_perf_flops) continue;
    if (options.gpu)
      run_case_on_gpu(options, op_case, filter.impl_prefix(), *pools[0], ceilings, results);
    else
      run_case_on_cpu(options, op_case, filter.impl_prefix(), pools, results);
  }
  require(!results.empty() || options.filter.empty(),
          "`filter`: no case matches '{}'; expected op:case:implementation", options.filter);
  return results;
}

}  // namespace tachy
