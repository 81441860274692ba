// The common host code of launchers of kernels: the C++ type behind a dtype, whether tensors allow 16-byte
// accesses, and the size of a grid.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/refusal.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

// Calls body.operator()<T>() with T float, __half or __nv_bfloat16.
template <class Body>
void dispatch_float(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f16:
      return body.template operator()<__half>();
    case DType::bf16:
      return body.template operator()<__nv_bfloat16>();
    default:
      fail(ErrorCode::invalid_argument, "{}: expected f32, f16 or bf16", op);
  }
}

// Calls body.operator()<X, Y>() for two dtypes, which are equal unless one is f32: no
// kernel mixes f16 and bf16.
template <class Body>
void dispatch_pair(const char* op, DType x, DType y, Body&& body) {
  require(x == y || x == DType::f32 || y == DType::f32, "{}: expected one 16-bit dtype, got f16 and bf16",
          op);
  dispatch_float(op, x, [&]<class X>() {
    if (y == x) return body.template operator()<X, X>();
    if constexpr (sizeof(X) == 2) return body.template operator()<X, float>();
    if constexpr (sizeof(X) == 4) {
      if (y == DType::f16) return body.template operator()<float, __half>();
      return body.template operator()<float, __nv_bfloat16>();
    }
  });
}

// True if rows can be read whole in packs of `pack` values: pointers must be aligned, and outer strides and
// the last dim must be multiples of `pack`. Absent tensors do not matter.
inline bool fits_packs(int pack, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    const int64_t bytes = pack * dtype_size(t->dtype), align = std::min<int64_t>(bytes, 16);
    if (reinterpret_cast<uintptr_t>(t->data) % static_cast<uintptr_t>(align)) return false;
    if (t->dims[t->rank - 1] % pack) return false;
    for (int axis = 0; axis + 1 < t->rank; ++axis)
      if (t->dims[axis] != 1 && t->strides[axis] % pack) return false;
  }
  return true;
}

inline bool aligned16(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data) % 16 == 0; }

// Returns nothing, or the reason why this GPU cannot run a kernel with tensor-core products of `dtype` and
// that much shared memory.
inline std::optional<Refusal> why_no_tensor_cores(const Stream& stream, DType dtype, size_t shared_bytes) {
  if (dtype != DType::bf16 && dtype != DType::f16) return Refusal::arguments("it takes bf16 and f16");
  const GpuInfo& gpu = stream.gpu->info();
  if (gpu.capability() < (dtype == DType::bf16 ? 80 : 75))
    return Refusal::weak_gpu(dtype == DType::bf16 ? "bf16 needs compute capability 8.0"
                                                  : "it needs compute capability 7.5");
  if (shared_bytes > gpu.shared_bytes)
    return Refusal::weak_gpu("a block needs ", std::to_string(shared_bytes) +
                                                   " bytes of shared memory, this GPU has " +
                                                   std::to_string(gpu.shared_bytes));
  return std::nullopt;
}

inline unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>(std::max<int64_t>(1, (count + each - 1) / each));
}

// Whether a result is so large that the next op will find little of it in the second-level cache.
inline bool streams(const Stream& stream, int64_t bytes) {
  return bytes * 2 > static_cast<int64_t>(stream.gpu->info().l2_bytes);
}

// The number of blocks, at most `waves` for each multiprocessor, for kernels that stride over their work.
inline unsigned persistent_grid(const Stream& stream, int64_t blocks, int waves) {
  const int64_t most = static_cast<int64_t>(stream.gpu->info().multiprocessors) * waves;
  return static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, most));
}

}  // namespace tachy::cuda
