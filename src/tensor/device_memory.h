// Memory of a device other than the CPU, for folders that do not know CUDA. src/cuda implements it.
//
// All calls take effect in the order of the device's single compute stream: after the work queued before
// them, and before the work queued after them. When upload() and download() return, the host's memory may be
// used again.
#pragma once

#include <cstddef>

#include "tensor/device.h"

namespace tachy {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Device device() const = 0;         // device of the tensors in this memory
  virtual void* allocate(size_t bytes) = 0;  // throws `out_of_memory` with the size and the free memory
  virtual void release(void* p, size_t bytes) noexcept = 0;
  virtual void upload(void* to, const void* from, size_t bytes) = 0;    // from the host
  virtual void download(void* to, const void* from, size_t bytes) = 0;  // to the host
  virtual void copy(void* to, const void* from, size_t bytes) = 0;      // within the device
  virtual void fill(void* to, int byte, size_t bytes) = 0;
  virtual void synchronize() = 0;  // waits until everything queued is done; throws `device` if it failed

  // Bytes held by live Buffers on this device, and the highest value since the last reset.
  virtual size_t live_bytes() const = 0;
  virtual size_t peak_bytes() const = 0;
  virtual void reset_peak() = 0;
};

}  // namespace tachy
