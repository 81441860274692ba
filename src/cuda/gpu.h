// One GPU: its facts, its memory and the compute stream that all of a generation's work is queued on.
// No CUDA header here: host code that only passes a Gpu around compiles without the toolkit. Kernels and
// wrappers of vendor libraries include cuda/runtime.h.
#pragma once

#include <memory>
#include <string>

#include "tensor/device_memory.h"

namespace tachy::cuda {

struct GpuInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared: the most one block can have
  int driver = 0, runtime = 0;                              // versions as CUDA numbers them: 13000
  int capability() const { return major * 10 + minor; }
};

class Gpu : public DeviceMemory {
 public:
  const GpuInfo& info() const { return info_; }
  void* stream() const { return stream_; }  // a cudaStream_t
  Device device() const override { return Device::cuda(info_.index); }
  virtual size_t free_bytes() const = 0;

  // State of a vendor library's wrapper (handles, plans) and
  // the blocks' board (board.h), made when first needed.
  struct Extra {
    virtual ~Extra() = default;
  };
  std::unique_ptr<Extra> cublaslt, cudnn, board;

 protected:
  GpuInfo info_;
  void* stream_ = nullptr;
};

// How many GPUs there are; with 0, `why` (if given) says why:
// no driver, too old a driver, no device, a build without CUDA.
int gpu_count(std::string* why = nullptr);

// Throws unsupported (no such GPU, and what to do) or device.
std::unique_ptr<Gpu> open_gpu(int index = 0);

}  // namespace tachy::cuda
