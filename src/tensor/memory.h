// Owners of tensor memory, and the stream that ops run on.
//
// Buffer: one aligned allocation that lives as long as its owner (packed weights, caches, tables),
//         on the host or on a device.
// Arena:  a bump allocator for activations, 256-byte aligned, rewound per block; addresses repeat every step.
//         A measuring arena hands out tensors without storage: the same model code then yields the
//         exact peak.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/profile_range.h"
#include "base/thread_pool.h"
#include "tensor/compute.h"
#include "tensor/device_memory.h"
#include "tensor/tensor.h"

namespace tachy {

namespace cuda {
class Gpu;  // cuda/gpu.h; opaque here, so that no host file needs CUDA's headers
}
namespace ops {
class PickRecord;  // ops/pick_record.h
}

inline constexpr size_t kAlignment = 256;
constexpr size_t align_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct BufferFree {
  size_t bytes = 0;
  DeviceMemory* device = nullptr;
  void operator()(void* p) const;
};

class Buffer {
 public:
  Buffer() = default;
  // On the host, or on `device`, which must outlive the Buffer. Throws out_of_memory with the size.
  explicit Buffer(size_t bytes, DeviceMemory* device = nullptr);
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }
  Tensor tensor(DType dtype, std::span<const int64_t> dims) const;
  Tensor tensor(DType dtype, std::initializer_list<int64_t> dims) const {
    return tensor(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }

  // Bytes held by all live Buffers on the host (each rounded to kAlignment), and its highest value since the
  // last reset. Arenas count too. Tests compare this with the plan. A DeviceMemory counts its own.
  static size_t live_bytes();
  static size_t peak_bytes();
  static void reset_peak();

 private:
  std::unique_ptr<void, BufferFree> data_;
  size_t size_ = 0;
};

class Arena {
 public:
  Arena() = default;  // measuring
  explicit Arena(size_t capacity, DeviceMemory* device = nullptr)
      : buffer_(capacity ? Buffer(capacity, device) : Buffer()),
        capacity_(capacity),
        measuring_(false),
        device_(device ? Device::cuda : Device::cpu) {}

  bool measuring() const { return measuring_; }
  size_t peak() const { return peak_; }
  size_t capacity() const { return capacity_; }

  size_t mark() const { return used_; }
  void rewind(size_t mark) { used_ = mark; }

  // nullptr in a measure run. Throws internal when the plan was too small (a bug: the plan is exact).
  void* bytes(size_t count);
  Tensor tensor(DType dtype, std::span<const int64_t> dims);
  Tensor tensor(DType dtype, std::initializer_list<int64_t> dims) {
    return tensor(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor f32(std::initializer_list<int64_t> dims) { return tensor(DType::f32, dims); }

 private:
  Buffer buffer_;
  size_t capacity_ = 0, used_ = 0, peak_ = 0;
  bool measuring_ = true;
  Device device_ = Device::null;
};

// Gives back everything allocated since its construction.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

// What an op runs on: where activations and scratch come from, who computes, whether anybody cancelled.
// In a measure run (`measuring()`) an op checks its arguments, takes its scratch and returns.
struct Stream {
  Arena* arena = nullptr;
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;
  cuda::Gpu* gpu = nullptr;        // ops run there, queued on its stream; null: on the CPU
  DeviceMemory* memory = nullptr;  // the GPU's; given together with it
  DType activation = DType::f32;   // of a model's activations; float32 on the CPU
  DType residual = DType::f32;     // of a transformer's residual stream: float32, or as the activations
  Compute compute = Compute::f32;  // weights are packed for it: the same at load and at run
  bool definitions = false;        // level none: every op runs its definition
  uint64_t* flops = nullptr;       // a measure run counts the multiply-adds (times two) of its products here
  Profiler* profiler = nullptr;    // told of the ranges of a run; null costs nothing
  ops::PickRecord* picks = nullptr;  // a measure run notes here which implementation each op gets

  void count_flops(double n) const {
    if (flops && measuring()) *flops += static_cast<uint64_t>(n);
  }
  bool measuring() const { return arena->measuring(); }
  int threads() const { return pool->threads(); }
  Device device() const { return gpu ? Device::cuda : Device::cpu; }
  void throw_if_cancelled() const {
    if (cancel && cancel->load(std::memory_order_relaxed)) fail(ErrorCode::cancelled, "cancelled");
  }
};

}  // namespace tachy
