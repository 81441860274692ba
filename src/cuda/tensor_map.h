// Tensor maps: how Hopper's copy engine reads boxes of a tensor into shared memory (device/tma.cuh).
//
// A map holds the tensor's address, so it is made for each launch (about 1 µs) and passed by value, which a
// CUDA graph records. The driver's function for it is looked up at run time, so that nothing links libcuda.
#pragma once

#include <cuda.h>

#include "cuda/runtime.h"

namespace tachy::cuda {

inline constexpr int kMaxMapDims = 4;

// The innermost dim, which is contiguous, comes first. Values are bf16, f16 or e4m3.
struct TensorMapShape {
  int rank;
  int64_t dims[kMaxMapDims];
  int64_t strides[kMaxMapDims];  // in values; [0] is not read
  int64_t box[kMaxMapDims];      // swizzled by as many bytes as box[0] has: 32, 64 or 128
  int64_t step[kMaxMapDims] = {1, 1, 1, 1};
};

// The shape of a tensor without gaps between its dims.
TensorMapShape dense_map(int rank, const int64_t (&dims)[kMaxMapDims], const int64_t (&box)[kMaxMapDims]);

bool tensor_maps_available();

// Throws `internal` with the shapes if the driver refuses; `what` begins the message.
CUtensorMap make_tensor_map(const char* what, DType dtype, const void* data, const TensorMapShape& shape);

}  // namespace tachy::cuda
