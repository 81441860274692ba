#include "inspect/op_bench_gpu.h"

namespace tachy {
namespace {

// If the case is only timed, its values need not differ everywhere.
bool tiled(const OpRunnerOptions& o) { return o.perf && !o.ref && !o.bitwise && !o.canary && !o.capture; }

}  // namespace

GpuBench::GpuBench(const OpCase& op_case, uint64_t seed, const OpRunnerOptions& options, ThreadPool& pool,
                   bool blank)
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

void GpuBench::copy_values(GpuBench& from) {
  for (size_t i = 0; i < memory_.blocks().size(); ++i) {
    auto &to = memory_.blocks()[i], &source = from.memory_.blocks()[i];
    if (to.input && to.on_device) gpu_.copy(to.data, source.data, static_cast<size_t>(to.bytes));
  }
}

double GpuBench::footprint() {
  double bytes = 0;
  for (auto& block : memory_.blocks())
    bytes += static_cast<double>(block.bytes) * (block.input && block.output ? 2 : 1);
  return bytes;
}

void GpuBench::reset() {
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

void GpuBench::prepare(const std::string& impl) {
  Arena measure;
  Stream s = stream(&measure);
  op_.run(impl, s);
  arena_ = Arena(measure.peak(), &gpu_);
  // Scratch must not start as zeros.
  if (measure.peak()) gpu_.fill(arena_.bytes(measure.peak()), 0xff, measure.peak());
  arena_.rewind(0);
}

void GpuBench::queue(const std::string& impl) {
  Stream s = stream(&arena_);
  op_.run(impl, s);
}

void GpuBench::run(const std::string& impl) {
  prepare(impl);
  reset();
  queue(impl);
  gpu_.synchronize();
}

std::vector<std::vector<char>> GpuBench::result_bytes() {
  std::vector<std::vector<char>> all;
  for (auto& block : memory_.blocks())
    if (block.output) all.push_back(download(block.data, block.bytes, block.on_device));
  return all;
}

std::vector<std::vector<float>> GpuBench::result_values() {
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

std::string GpuBench::damage() {
  int number = 0;
  for (auto& block : memory_.blocks()) {
    const auto all = download(static_cast<char*>(block.buffer.data()),
                              static_cast<int64_t>(block.buffer.size()), block.on_device);
    if (std::string found = damage_of(block, all, op_, memory_, number++); !found.empty()) return found;
  }
  return "";
}

std::vector<char> GpuBench::download(const char* data, int64_t bytes, bool on_device) {
  std::vector<char> out(static_cast<size_t>(bytes));
  if (on_device)
    gpu_.download(out.data(), data, out.size());
  else
    std::memcpy(out.data(), data, out.size());
  return out;
}

}  // namespace tachy
