#include "cuda/tensor_map.h"

namespace tachy::cuda {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode encode_function() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &result) != cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
      found = nullptr;
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

}  // namespace

namespace {

CUtensorMapDataType type_of(DType dtype) {
  if (dtype == DType::f8_e4m3) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  return dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

CUtensorMapSwizzle swizzle_of(int64_t row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                           : CU_TENSOR_MAP_SWIZZLE_32B;
}

}  // namespace

bool tensor_maps_available() { return encode_function() != nullptr; }

TensorMapShape dense_map(int rank, const int64_t (&dims)[kMaxMapDims], const int64_t (&box)[kMaxMapDims]) {
  TensorMapShape m{.rank = rank};
  for (int i = 0; i < rank; ++i) {
    m.dims[i] = dims[i], m.box[i] = box[i];
    m.strides[i] = i == 0 ? 1 : m.strides[i - 1] * dims[i - 1];
  }
  return m;
}

CUtensorMap make_tensor_map(const char* what, DType dtype, const void* data, const TensorMapShape& m) {
  CUtensorMap map;
  cuuint64_t dims[kMaxMapDims], strides[kMaxMapDims];
  cuuint32_t box[kMaxMapDims], step[kMaxMapDims];
  for (int i = 0; i < m.rank; ++i) {
    dims[i] = static_cast<cuuint64_t>(m.dims[i]);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(m.strides[i] * dtype_size(dtype));
    box[i] = static_cast<cuuint32_t>(m.box[i]), step[i] = static_cast<cuuint32_t>(m.step[i]);
  }
  const CUresult status = encode_function()(
      &map, type_of(dtype), static_cast<cuuint32_t>(m.rank), const_cast<void*>(data), dims, strides, box,
      step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(m.box[0] * dtype_size(dtype)),
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS, ErrorCode::internal,
        "{}: the driver refused a tensor map of [{}, {}, {}, {}], box {}x{}x{}x{} (error {})", what,
        m.dims[0], m.dims[1], m.rank > 2 ? m.dims[2] : 1, m.rank > 3 ? m.dims[3] : 1, m.box[0], m.box[1],
        m.rank > 2 ? m.box[2] : 1, m.rank > 3 ? m.box[3] : 1, static_cast<int>(status));
  return map;
}

}  // namespace tachy::cuda
