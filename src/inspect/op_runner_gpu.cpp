// The runner's cases on a GPU. The definition runs on the
// CPU on the same values, rounded as the GPU holds them.
#include <algorithm>

#include "cuda/gpu.h"
#include "cuda/graph.h"
#include "inspect/op_runner_impl.h"
#include "ops/gemm/gemm.h"

namespace tachy {
namespace {

float value_at(const char* p, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return *reinterpret_cast<const float*>(p);
    case DType::f16:
      return to_float(*reinterpret_cast<const f16_t*>(p));
    case DType::bf16:
      return to_float(*reinterpret_cast<const bf16_t*>(p));
    case DType::f8_e4m3:
      return to_float(*reinterpret_cast<const f8_e4m3_t*>(p));
    case DType::f8_e5m2:
      return to_float(*reinterpret_cast<const f8_e5m2_t*>(p));
    case DType::i8:
      return static_cast<float>(*reinterpret_cast<const int8_t*>(p));
    case DType::u8:
    case DType::boolean:
      return static_cast<float>(*reinterpret_cast<const uint8_t*>(p));
    case DType::i32:
      return static_cast<float>(*reinterpret_cast<const int32_t*>(p));
    default:
      fail(ErrorCode::internal, "op runner: no way to read {}", dtype_name(dtype));
  }
}

float rounded(float v, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(v));
  if (dtype == DType::f16) return to_float(to_f16(v));
  return v;
}

// The distance from v to the next value of dtype.
double ulp(float v, DType dtype) {
  int exponent;
  std::frexp(v, &exponent);  // v = m · 2^exponent, m in [0.5, 1)
  const int digits = dtype == DType::bf16 ? 8 : dtype == DType::f16 ? 11 : 24;
  return std::ldexp(1.0, exponent - digits);
}

std::vector<float> values_of(const Tensor& t) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(t.numel()));
  if (t.contiguous()) {
    const auto* p = static_cast<const char*>(t.data);
    for (int64_t i = 0; i < t.numel(); ++i) values.push_back(value_at(p + i * dtype_size(t.dtype), t.dtype));
    return values;
  }
  for_each_element(t, [&](int64_t offset) {
    values.push_back(value_at(static_cast<const char*>(t.data) + offset, t.dtype));
  });
  return values;
}

// The definition's results, made once a case.
struct Expected {
  std::vector<std::vector<float>> reference, working;  // of each output
};

Expected define(const OpCase& op_case, uint64_t seed, DType dtype, ThreadPool& pool) {
  Bench host(op_case, seed, {.dtype = dtype, .pool = &pool});
  Expected out;
  host.run("ref", pool);
  for (const Tensor& t : host.op().outputs) out.reference.push_back(values_of(t));
  if (!host.op().has_working) return out;
  host.run("working", pool);
  for (const Tensor& t : host.op().outputs) out.working.push_back(values_of(t));
  return out;
}

// Only timed: the values need not differ everywhere.
bool tiled(const OpRunnerOptions& o) { return o.perf && !o.ref && !o.bitwise && !o.canary && !o.capture; }

class GpuBench {
 public:
  GpuBench(const OpCase& op_case, uint64_t seed, const OpRunnerOptions& options, ThreadPool& pool, bool blank)
      : gpu_(*options.gpu),
        pool_(pool),
        memory_(seed, op_case.kind,
                {.dtype = options.dtype,
                 .gpu = &gpu_,
                 .device = &gpu_,
                 .pool = &pool,
                 .tiled = tiled(options),
                 .blank = blank}),
        op_(op_case.make(memory_)),
        dtype_(options.dtype) {
    memory_.finish();
    for (auto& block : memory_.blocks()) {
      pristine_.emplace_back();
      if (!blank && !tiled(options) && block.input && block.output && block.on_device) {
        pristine_.back() = Buffer(static_cast<size_t>(block.bytes), &gpu_);
        gpu_.copy(pristine_.back().data(), block.data, static_cast<size_t>(block.bytes));
      }
    }
  }

  const BoundOp& op() const { return op_; }
  CaseMemory& memory() { return memory_; }

  void copy_values(GpuBench& from) {
    for (size_t i = 0; i < memory_.blocks().size(); ++i) {
      auto &to = memory_.blocks()[i], &source = from.memory_.blocks()[i];
      if (to.input && to.on_device) gpu_.copy(to.data, source.data, static_cast<size_t>(to.bytes));
    }
  }

  // Bytes of every input and output once.
  double footprint() {
    double bytes = 0;
    for (auto& block : memory_.blocks())
      bytes += static_cast<double>(block.bytes) * (block.input && block.output ? 2 : 1);
    return bytes;
  }

  void reset() {
    for (size_t i = 0; i < memory_.blocks().size(); ++i) {
      auto& block = memory_.blocks()[i];
      const auto bytes = static_cast<size_t>(block.bytes);
      if (block.input && block.output && block.on_device) gpu_.copy(block.data, pristine_[i].data(), bytes);
      if (block.input) continue;
      if (block.on_device)
        gpu_.fill(block.data, 0xff, bytes);
      else
        std::memset(block.data, 0xff, bytes);
    }
  }

  Stream stream(Arena* arena) const {
    return {
        .arena = arena, .pool = &pool_, .gpu = &gpu_, .memory = &gpu_, .precision = {.activation = dtype_}};
  }

  void prepare(const std::string& impl) {
    Arena measure;
    Stream s = stream(&measure);
    op_.run(impl, s);
    arena_ = Arena(measure.peak(), &gpu_);
    if (measure.peak()) gpu_.fill(arena_.bytes(measure.peak()), 0xff, measure.peak());  // scratch is not zero
    arena_.rewind(0);
  }

  void queue(const std::string& impl) {
    Stream s = stream(&arena_);
    op_.run(impl, s);
  }

  void run(const std::string& impl) {
    prepare(impl);
    reset();
    queue(impl);
    gpu_.synchronize();
  }

  // The bytes of the blocks that hold outputs.
  std::vector<std::vector<char>> result_bytes() {
    std::vector<std::vector<char>> all;
    for (auto& block : memory_.blocks())
      if (block.output) all.push_back(download(block.data, block.bytes, block.on_device));
    return all;
  }

  std::vector<std::vector<float>> result_values() {
    std::vector<std::vector<float>> all;
    for (const Tensor& t : op_.outputs) {
      auto* block = memory_.block_of(t.data);
      const auto bytes = download(block->data, block->bytes, block->on_device);
      Tensor on_host = t;
      on_host.data = const_cast<char*>(bytes.data()) + (static_cast<char*>(t.data) - block->data);
      all.push_back(values_of(on_host));
    }
    return all;
  }

  std::string damage() {
    int number = -1;
    for (auto& block : memory_.blocks()) {
      ++number;
      const auto all = download(static_cast<char*>(block.buffer.data()),
                                static_cast<int64_t>(block.buffer.size()), block.on_device);
      const int64_t first = block.data - static_cast<char*>(block.buffer.data());
      for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
        if (i == first) i += block.bytes;
        if (i < static_cast<int64_t>(all.size()) &&
            static_cast<uint8_t>(all[static_cast<size_t>(i)]) != CaseMemory::kGuard)
          return fmt::format("tensor {}: guard byte at {} was changed", number, i - first);
      }
      const char* data = all.data() + first;
      if (block.input && !block.output && block.on_device &&
          std::memcmp(data, block.pristine.data(), block.pristine.size()) != 0)
        return fmt::format("tensor {}: an input was changed", number);
      if (block.input) continue;
      std::vector<bool> covered(static_cast<size_t>(block.bytes));
      for (const Tensor& t : written(op_)) {
        if (memory_.block_of(t.data) != &block) continue;
        for_each_element(t, [&](int64_t offset) {
          const int64_t at = static_cast<const char*>(t.data) - block.data + offset;
          for (int i = 0; i < dtype_size(t.dtype); ++i) covered[static_cast<size_t>(at + i)] = true;
        });
      }
      for (int64_t i = 0; i < block.bytes; ++i)
        if (!covered[static_cast<size_t>(i)] && static_cast<uint8_t>(data[i]) != 0xff)
          return fmt::format("tensor {}: byte {} between the rows of an output was changed", number, i);
    }
    return "";
  }

 private:
  std::vector<char> download(const char* data, int64_t bytes, bool on_device) {
    std::vector<char> out(static_cast<size_t>(bytes));
    if (on_device)
      gpu_.download(out.data(), data, out.size());
    else
      std::memcpy(out.data(), data, out.size());
    return out;
  }

  cuda::Gpu& gpu_;
  ThreadPool& pool_;
  CaseMemory memory_;
  BoundOp op_;
  std::vector<Buffer> pristine_;
  Arena arena_;
  DType dtype_;
};

void compare(GpuBench& bench, const Expected& expected, const std::string& impl, double factor,
             OpResult& result) {
  bench.run(impl);
  const auto got = bench.result_values();
  for (size_t n = 0; n < got.size(); ++n) {
    const DType dtype = bench.op().outputs[n].dtype;
    std::vector<float> reference = expected.reference[n];
    for (float& v : reference)  // what the dtype cannot hold must come out as the infinity it rounds to
      if (std::isinf(rounded(v, dtype))) v = rounded(v, dtype);
    float highest = 0;
    for (float v : reference)
      if (std::isfinite(v)) highest = std::max(highest, std::abs(v));
    size_t worst = 0;
    double worst_error = -1;
    for (size_t i = 0; i < reference.size(); ++i) {
      const double e = std::abs(static_cast<double>(got[n][i]) - reference[i]);
      if (std::isnan(e) ? !std::isnan(reference[i]) && got[n][i] != reference[i] : e > worst_error)
        worst = i, worst_error = std::isnan(e) ? INFINITY : e;
    }
    const auto at = [&] {
      return fmt::format("output {} of {}, worst at {} of {}: {} for {}", n, dtype_name(dtype), worst,
                         reference.size(), got[n][worst], reference[worst]);
    };
    if (expected.working.empty()) {
      for (size_t i = 0; i < reference.size(); ++i) {
        const float want = rounded(reference[i], dtype), have = got[n][i];
        if (want == have || (std::isnan(want) && std::isnan(have))) continue;
        result.ok = false;
        result.detail = fmt::format("output {} at {} of {}: expected exactly {}, got {}", n, i,
                                    reference.size(), want, have);
        return;
      }
      if (result.detail.empty()) result.detail = "exact";
      continue;
    }
    std::vector<float> stored = expected.working[n];
    for (float& v : stored) v = rounded(v, dtype);
    const Distance allowed = distance(stored, reference), error = distance(got[n], reference);
    const double unit = highest > 0 ? ulp(highest, dtype) : 0;
    const double bound = factor * (2 * allowed.max + 2 * unit),
                 rms_bound = factor * (2 * allowed.rms + 2 * unit);
    const bool ok = error.same_specials && error.max <= bound && error.rms <= rms_bound;
    // Of the output that comes closest to its bound: outputs differ in dtype and size.
    if (result.bound == 0 || error.max * result.bound > result.error * bound)
      result.error = error.max, result.bound = bound;
    if (result.ok)
      result.detail = fmt::format("max {:.2e} (bound {:.2e}), rms {:.2e} (L {:.2e}){}", error.max, bound,
                                  error.rms, allowed.rms, ok ? "" : "; " + at());
    if (!error.same_specials) result.detail += "; NaN or Inf in other places";
    result.ok = result.ok && ok;
  }
}

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
  // A replay takes some microseconds to begin and to end, which are not the op's: short ops share them among
  // a hundred calls, or as many as fill ten milliseconds.
  int turns = 1;
  std::unique_ptr<cuda::Graph> graph;
  if (!op_case.waits) {
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
  for (double total = 0; times.size() < (total > 3e5 ? 3u : 5u) ||
                         (total < options.perf_seconds * 1e6 && times.size() < 300);) {
    const double us = cuda::device_us(gpu, round);
    times.push_back(us / static_cast<double>(sets) / turns), total += us;
  }
  std::sort(times.begin(), times.end());
  result.median_us = times[times.size() / 2];
  result.repeats = static_cast<int>(times.size());
  result.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / 2 / result.median_us;
  // The case counts float32: scale by what the tensors of this dtype hold.
  double wide = 0;
  for (auto& block : first.memory().blocks()) {
    const double ratio = block.on_device && block.activation ? 4.0 / dtype_size(options.dtype) : 1.0;
    wide += ratio * static_cast<double>(block.bytes) * (block.input && block.output ? 2 : 1);
  }
  const double bytes = op_case.bytes * footprint / wide;
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

}  // namespace

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
    if (!impl.starts_with(impl_prefix)) continue;
    Arena arena;
    const std::optional<Refusal> why_not = bench->op().why_not(impl, bench->stream(&arena));
    if (why_not && why_not->why == Refusal::Why::other_device) continue;  // an entry for the CPU
    if (options.picked_only && impl_prefix.empty() && impl != bench->op().choose(bench->stream(&arena)).impl)
      continue;
    const auto add = [&](const char* mode, auto&& body) {
      OpResult result = blank;
      result.impl = impl, result.mode = mode;
      if (why_not) {
        result.skipped = true, result.detail = why_not->text();
      } else {
        try {
          body(result);
        } catch (const std::exception& error) {
          result.ok = false, result.detail = error.what();
        }
      }
      results.push_back(std::move(result));
    };
    if (options.ref)
      add("ref", [&](OpResult& r) {
        if (!expected) expected = define(op_case, options.seed, options.dtype, pool);
        compare(*bench, *expected, impl, bench->op().factor * op_case.gpu_factor, r);
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
      add("capture", [&](OpResult& r) {
        bench->run(impl);
        const auto eager = bench->result_bytes();
        const auto graph = cuda::capture(*options.gpu, [&] { bench->queue(impl); });
        bench->reset();
        graph->launch();
        options.gpu->synchronize();
        r.ok = bench->result_bytes() == eager;
        r.detail = r.ok ? fmt::format("{} nodes", graph->nodes()) : "a replayed graph gives other bytes";
      });
    if (options.perf)
      add("perf", [&](OpResult& r) { time_on_gpu(*bench, op_case, options, pool, impl, ceilings, r); });
  }
}

}  // namespace tachy
