#include "inspect/op_runner.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ops/activation/activation_cases.h"
#include "ops/add_norm/add_norm_cases.h"
#include "ops/attention/attention_cases.h"
#include "ops/channel_norm/channel_norm_cases.h"
#include "ops/conv2d/conv2d_cases.h"
#include "ops/conv3d/conv3d_cases.h"
#include "ops/dtype_switch.h"
#include "ops/elementwise/elementwise_cases.h"
#include "ops/embedding/embedding_cases.h"
#include "ops/gated_residual/gated_residual_cases.h"
#include "ops/gemm/gemm_cases.h"
#include "ops/glu/glu_cases.h"
#include "ops/group_norm/group_norm_cases.h"
#include "ops/layernorm_modulate/layernorm_modulate_cases.h"
#include "ops/patchify/patchify_cases.h"
#include "ops/qk_norm_rope/qk_norm_rope_cases.h"
#include "ops/quantize/quantize_cases.h"
#include "ops/reparameterize/reparameterize_cases.h"
#include "ops/rmsnorm/rmsnorm_cases.h"
#include "ops/rope/rope_cases.h"
#include "ops/upsample_conv2d/upsample_conv2d_cases.h"

namespace tachy {

using ops::BoundOp;
using ops::CaseKind;
using ops::CaseMemory;
using ops::OpCase;

std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> all;
  for (auto* list : {ops::add_norm_cases,
                     ops::group_norm_cases,
                     ops::quantize_cases,
                     ops::reparameterize_cases,
                     ops::activation_cases,
                     ops::attention_cases,
                     ops::channel_norm_cases,
                     ops::conv2d_cases,
                     ops::conv3d_cases,
                     ops::elementwise_cases,
                     ops::embedding_cases,
                     ops::gated_residual_cases,
                     ops::gemm_cases,
                     ops::glu_cases,
                     ops::layernorm_modulate_cases,
                     ops::patchify_cases,
                     ops::qk_norm_rope_cases,
                     ops::rmsnorm_cases,
                     ops::rope_cases,
                     ops::upsample_conv2d_cases})
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  return all;
}

namespace {

// Calls visit(byte offset from t.data) for each element.
template <class Visit>
void for_each_element(const Tensor& t, Visit&& visit) {
  int64_t index[kMaxDims] = {};
  const int64_t count = t.numel(), size = dtype_size(t.dtype);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (int axis = 0; axis < t.rank; ++axis) offset += index[axis] * t.strides[axis];
    visit(offset * size);
    for (int axis = t.rank - 1; axis >= 0 && ++index[axis] == t.dims[axis]; --axis) index[axis] = 0;
  }
}

std::vector<char> bytes_of(const std::vector<Tensor>& outputs) {
  std::vector<char> all;
  for (const Tensor& t : outputs)
    for_each_element(t, [&](int64_t offset) {
      const char* p = static_cast<const char*>(t.data) + offset;
      all.insert(all.end(), p, p + dtype_size(t.dtype));
    });
  return all;
}

std::vector<float> floats_of(const std::vector<char>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

// One case, made once and run many times on the same memory.
class Bench {
 public:
  Bench(const OpCase& op_case, uint64_t seed) : memory_(seed, op_case.kind), op_(op_case.make(memory_)) {
    for (auto& block : memory_.blocks())
      if (block.input) block.pristine.assign(block.data, block.data + block.bytes);
  }

  const BoundOp& op() const { return op_; }

  // Inputs back to their values, outputs to NaN (every byte 0xff).
  void reset() {
    for (auto& block : memory_.blocks()) {
      if (block.input && block.output) std::memcpy(block.data, block.pristine.data(), block.pristine.size());
      if (!block.input) std::memset(block.data, 0xff, static_cast<size_t>(block.bytes));
    }
  }

  std::vector<char> run(const std::string& impl, ThreadPool& pool) {
    prepare(impl, pool);
    reset();
    Stream stream{&arena_, &pool};
    op_.run(impl, stream);
    return bytes_of(op_.outputs);
  }

  double seconds(const std::string& impl, ThreadPool& pool) {
    Stream stream{&arena_, &pool};
    const auto start = std::chrono::steady_clock::now();
    op_.run(impl, stream);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // The arena's size is what a measure run of this implementation asks for.
  void prepare(const std::string& impl, ThreadPool& pool) {
    Arena measure;
    Stream stream{&measure, &pool};
    reset();
    op_.run(impl, stream);
    arena_ = Arena(measure.peak());
  }

  // "" or what was changed that should not have been.
  std::string damage() {
    int number = 0;
    for (auto& block : memory_.blocks()) {
      const char* start = static_cast<const char*>(block.buffer.data());
      for (const char* p = start; p < start + block.buffer.size(); ++p) {
        if (p == block.data) p += block.bytes;
        if (p < start + block.buffer.size() && static_cast<uint8_t>(*p) != CaseMemory::kGuard)
          return fmt::format("tensor {}: guard byte at {} was changed", number, p - block.data);
      }
      if (block.input && !block.output &&
          std::memcmp(block.data, block.pristine.data(), block.pristine.size()) != 0)
        return fmt::format("tensor {}: an input was changed", number);
      if (!block.input) {
        std::vector<bool> covered(static_cast<size_t>(block.bytes));
        for (const Tensor& t : op_.outputs) {
          if (memory_.block_of(t.data) != &block) continue;
          for_each_element(t, [&](int64_t offset) {
            const int64_t at = static_cast<const char*>(t.data) - block.data + offset;
            for (int i = 0; i < dtype_size(t.dtype); ++i) covered[static_cast<size_t>(at + i)] = true;
          });
        }
        for (int64_t i = 0; i < block.bytes; ++i)
          if (!covered[static_cast<size_t>(i)] && static_cast<uint8_t>(block.data[i]) != 0xff)
            return fmt::format("tensor {}: byte {} between the rows of an output was changed", number, i);
      }
      ++number;
    }
    return "";
  }

 private:
  CaseMemory memory_;
  BoundOp op_;
  Arena arena_;
};

struct Distance {
  double max = 0, rms = 0;
  bool same_specials = true;  // NaN and infinities in the same places
};

Distance distance(const std::vector<float>& a, const std::vector<float>& b) {
  Distance d;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      d.same_specials = d.same_specials && ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]);
      continue;
    }
    const double e = std::abs(static_cast<double>(a[i]) - b[i]);
    d.max = std::max(d.max, e);
    d.rms += e * e;
  }
  d.rms = a.empty() ? 0 : std::sqrt(d.rms / static_cast<double>(a.size()));
  return d;
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
  const auto reference = floats_of(definition);
  float highest = 0;
  for (float v : reference)
    if (std::isfinite(v)) highest = std::max(highest, std::abs(v));
  const double ulp = static_cast<double>(std::nextafter(highest, INFINITY)) - highest;
  const Distance allowed = distance(floats_of(working), reference),
                 error = distance(floats_of(got), reference);
  const double factor = bench.op().factor;
  result.error = error.max, result.bound = factor * (2 * allowed.max + 2 * ulp);
  const double rms_bound = factor * (2 * allowed.rms + 2 * ulp);
  result.ok = error.same_specials && error.max <= result.bound && error.rms <= rms_bound;
  result.detail =
      fmt::format("max {:.2e} (bound {:.2e}), rms {:.2e} (bound {:.2e}){}", error.max, result.bound,
                  error.rms, rms_bound, error.same_specials ? "" : ", NaN or Inf in other places");
}

void compare_runs(Bench& bench, const std::string& impl, ThreadPool& pool, ThreadPool& one, ThreadPool& more,
                  OpResult& result) {
  const auto first = bench.run(impl, pool);
  if (bench.run(impl, pool) != first)
    result.ok = false, result.detail = "two runs differ";
  else if (bench.run(impl, one) != first)
    result.ok = false, result.detail = "1 thread gives other bytes";
  else if (bench.run(impl, more) != first)
    result.ok = false, result.detail = "more threads give other bytes";
}

void time_runs(Bench& bench, const OpCase& op_case, const std::string& impl, ThreadPool& pool, double budget,
               OpResult& result) {
  bench.prepare(impl, pool);
  std::vector<double> times;
  bench.seconds(impl, pool);
  for (double total = 0; times.size() < 3 || (total < budget && times.size() < 1000); total += times.back())
    times.push_back(bench.seconds(impl, pool));
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  result.median_us = median * 1e6;
  result.gb_per_s = op_case.bytes / median * 1e-9, result.gflops = op_case.flops / median * 1e-9;
  result.detail =
      fmt::format("{:.1f} us, {:.2f} GB/s, {:.1f} GFLOP/s", result.median_us, result.gb_per_s, result.gflops);
}

}  // namespace

std::vector<OpResult> run_ops(const OpRunnerOptions& options) { return run_ops(options, all_op_cases()); }

std::vector<OpResult> run_ops(const OpRunnerOptions& options, const std::vector<OpCase>& cases) {
  require(options.threads >= 1, "op runner: expected at least 1 thread, got {}", options.threads);
  std::array<std::string, 3> parts;
  for (size_t i = 0, begin = 0; i < 3 && begin <= options.filter.size(); ++i) {
    const size_t end = std::min(options.filter.find(':', begin), options.filter.size());
    parts[i] = options.filter.substr(begin, end - begin);
    begin = end + 1;
  }
  const auto matches = [&](size_t part, const std::string& text) { return text.starts_with(parts[part]); };
  ThreadPool pool(options.threads), one(1), more(options.threads + 1);
  std::vector<OpResult> results;
  for (const OpCase& op_case : cases) {
    const bool wanted = op_case.kind == CaseKind::tiny  ? options.tiny
                        : op_case.kind == CaseKind::odd ? options.odd
                                                        : options.real;
    if (!wanted || !matches(0, op_case.op) || !matches(1, op_case.name)) continue;
    Bench bench(op_case, options.seed);
    std::vector<char> definition, working;
    if (options.ref) {
      definition = bench.run("ref", pool);
      if (bench.op().has_working) working = bench.run("working", pool);
    }
    for (const std::string& impl : bench.op().impls) {
      if (!matches(2, impl)) continue;
      const auto add = [&](const char* mode, auto&& body) {
        OpResult result{
            .op = op_case.op, .case_name = op_case.name, .impl = impl, .mode = mode, .seed = options.seed};
        Arena arena;
        const std::string reason = bench.op().why_not(impl, Stream{&arena, &pool});
        if (!reason.empty()) {
          result.skipped = true, result.detail = reason;
        } else {
          try {
            body(result);
          } catch (const std::exception& error) {
            result.ok = false, result.detail = error.what();
          }
        }
        results.push_back(std::move(result));
      };
      if (options.ref && impl != "ref")
        add("ref", [&](OpResult& r) { compare_with_definition(bench, definition, working, impl, pool, r); });
      if (options.bitwise)
        add("bitwise", [&](OpResult& r) { compare_runs(bench, impl, pool, one, more, r); });
      if (options.canary)
        add("canary", [&](OpResult& r) {
          bench.run(impl, pool);
          r.detail = bench.damage();
          r.ok = r.detail.empty();
        });
      if (options.perf)
        add("perf", [&](OpResult& r) { time_runs(bench, op_case, impl, pool, options.perf_seconds, r); });
    }
  }
  require(!results.empty() || options.filter.empty(),
          "op runner: no case matches '{}'; expected op:case:implementation", options.filter);
  return results;
}

}  // namespace tachy
