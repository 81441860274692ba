// checksum_of (base/checksum.h) of bytes on the device.
#pragma once

#include <cstddef>

namespace tachy::cuda {

// Queues the sum of `bytes` bytes at `data` (which begins at a multiple of 4). It is written to the 64 bits
// at `sum`. `stream` is a cudaStream_t.
void queue_checksum(const void* data, size_t bytes, void* sum, void* stream);

}  // namespace tachy::cuda
