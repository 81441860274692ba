// A Stream is what an op runs on. It says where work is queued and where memory comes from, in which
// precision a model computes (precision.h), which optimisations are switched off (without.h), who watches
// (hooks.h) and what is added to a model's layers (adapters.h). It is a small value: a part of a run that
// differs in one of these copies it.
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
class Gpu;  // cuda/gpu.h; opaque here, so that no host file needs CUDA's headers
}

// In a measure run (`measuring()`) an op checks its arguments, takes its scratch and returns.
struct Stream {
  Arena* arena = nullptr;  // activations and scratch
  ThreadPool* pool = nullptr;
  cuda::Gpu* gpu = nullptr;        // ops run there, queued on its stream; null: on the CPU
  DeviceMemory* memory = nullptr;  // the GPU's memory; given together with `gpu`
  Precision precision;
  Without without;
  Hooks hooks;
  const Adapters* adapters = nullptr;  // for the one model that this stream runs; null: none

  bool measuring() const { return arena->measuring(); }
  int threads() const { return pool->threads(); }
  DeviceType device_type() const { return gpu ? DeviceType::cuda : DeviceType::cpu; }
  Device device() const { return gpu ? memory->device() : Device::cpu; }  // where ops run
  void count_flops(double n) const {
    if (hooks.flops && measuring()) *hooks.flops += static_cast<uint64_t>(n);
  }
  void throw_if_cancelled() const {
    if (hooks.cancel && hooks.cancel->load(std::memory_order_relaxed))
      fail(ErrorCode::cancelled, "cancelled");
  }
};

}  // namespace tachy
