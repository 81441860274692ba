// Tells an op where its work is queued, where memory comes from, in which precision the model computes
// (precision.h), which optimisations are off (without.h), who watches (hooks.h) and what is added to the
// model's layers (adapters.h). It is a small value: a part of a run that needs one of these changed copies
// it.
#pragma once

#include "base/thread_pool.h"
#include "tensor/adapters.h"
#include "tensor/device_memory.h"
#include "tensor/hooks.h"
#include "tensor/memory.h"
#include "tensor/precision.h"
#include "tensor/without.h"

namespace tachy {

namespace cuda {
class Gpu;  // cuda/gpu.h; only declared here, so that host files do not need CUDA's headers
}

void hold_run(const Hooks& hooks);  // hold.h

// In a measure run (`measuring()`) an op checks its arguments, takes its scratch and returns.
struct Stream {
  Arena* arena = nullptr;  // activations and scratch
  ThreadPool* pool = nullptr;
  cuda::Gpu* gpu = nullptr;        // ops are queued on its stream; if null, they run on the CPU
  DeviceMemory* memory = nullptr;  // the GPU's memory; set together with `gpu`
  Precision precision;
  Without without;
  Hooks hooks;
  const Adapters* adapters = nullptr;  // for the only model that this stream runs; null if there are none

  bool measuring() const { return arena->measuring(); }
  int threads() const { return pool->threads(); }
  DeviceType device_type() const { return gpu ? DeviceType::cuda : DeviceType::cpu; }
  Device device() const { return gpu ? memory->device() : Device::cpu; }  // where ops run
  void count_flops(double n) const {
    if (hooks.flops && measuring()) *hooks.flops += static_cast<uint64_t>(n);
  }
  // A point at which the run can stop: throws `cancelled` if it is told to. If it is told to hold, it waits here.
  void throw_if_cancelled() const {
    if (hooks.cancel && hooks.cancel->load(std::memory_order_relaxed))
      fail(ErrorCode::cancelled, "cancelled");
    if (hooks.hold && hooks.hold->load(std::memory_order_relaxed)) hold_run(hooks);
  }
};

}  // namespace tachy
