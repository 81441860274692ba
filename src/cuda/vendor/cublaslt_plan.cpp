// To a library that counts columns first, row-major y = x·wᵀ is yᵀ = w·xᵀ: its A is w, its B is x, and the
// bias of y's columns is its bias of rows. Split products may only be reduced in float32 and in order, so
// that a result repeats itself to the bit.
#include "cuda/vendor/cublaslt_plan.h"

#include <algorithm>

namespace tachy::cuda {
namespace {

constexpr int kCandidates = 8;

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f8_e4m3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_32F;
  }
}

}  // namespace

std::string key_of(const MatmulShape& s) {
  return fmt::format("{}x{}x{} rows {} {} {} {} {} {}{}{}{}{}{}{} a{}", s.m, s.n, s.k, s.x_row, s.w_row,
                     s.y_row, s.c ? s.c_row : 0, dtype_name(s.type), dtype_name(s.out),
                     s.w_is_nk ? " nk" : " kn", s.bias ? " bias" : "", s.gelu ? " gelu" : "", s.c ? " c" : "",
                     s.scales ? " scales" : "", s.tf32 ? " tf32" : "", s.alignment) +
         (s.like > 0 ? fmt::format(" like {}", s.like) : "");
}

void describe_product(CublasLtPlan& p, const MatmulShape& s) {
  const CublasLtApi& api = *p.api;
  api.check(api.create_desc(&p.desc, s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "descriptor");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    api.check(api.set_desc(p.desc, attribute, &value, sizeof value), "descriptor");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, s.w_is_nk ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  p.bias = s.bias, p.scales = s.scales, p.adds = s.c;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.gelu ? (s.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU)
                                     : s.bias ? CUBLASLT_EPILOGUE_BIAS
                                              : CUBLASLT_EPILOGUE_DEFAULT);
  if (s.bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(s.out));
    // Only its alignment matters yet: the library refuses to run some of the products that it
    // suggests for a better one.
    const void* somewhere =
        reinterpret_cast<const void*>(uintptr_t{256} + static_cast<unsigned>(s.alignment % 16));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  }
  if (s.scales) {
    const auto mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      if (api.set_desc(p.desc, which, &mode, sizeof mode) != CUBLAS_STATUS_SUCCESS) {
        p.why = "this cuBLASLt has no scales a row (that of CUDA 12.9 has)";
        return;
      }
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    const void* somewhere = reinterpret_cast<const void*>(uintptr_t{256});  // suggestions need an address
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
  }
  const auto layout = [&](cublasLtMatrixLayout_t& to, DType type, int64_t rows, int64_t columns, int64_t ld) {
    api.check(api.create_layout(&to, cuda_type(type), static_cast<uint64_t>(rows),
                                static_cast<uint64_t>(columns), std::max(ld, rows)),
              "layout");
  };
  s.w_is_nk ? layout(p.w, s.type, s.k, s.n, s.w_row) : layout(p.w, s.type, s.n, s.k, s.w_row);
  layout(p.x, s.type, s.k, s.m, s.x_row), layout(p.y, s.out, s.n, s.m, s.y_row);
  layout(p.c, s.out, s.n, s.m, s.c ? s.c_row : s.y_row);
}

std::vector<cublasLtMatmulHeuristicResult_t> candidates(const CublasLtApi& api, cublasLtHandle_t handle,
                                                        const CublasLtPlan& p, const MatmulShape& s) {
  cublasLtMatmulPreference_t preference = nullptr;
  api.check(api.create_preference(&preference), "preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    api.set_preference(preference, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto alignment = static_cast<uint32_t>(s.alignment);
  for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
  int count = 0;
  const cublasStatus_t status =
      api.heuristic(handle, p.desc, p.w, p.x, p.c, p.y, preference, kCandidates, results.data(), &count);
  api.destroy_preference(preference);
  results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

int alignment_of(std::initializer_list<const Tensor*> tensors) {
  uint64_t bits = 16;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    bits |= reinterpret_cast<uintptr_t>(t->data);
    for (int axis = 0; axis + 1 < t->rank; ++axis)
      if (t->dims[axis] > 1) bits |= static_cast<uint64_t>(t->strides[axis] * dtype_size(t->dtype));
  }
  return static_cast<int>(bits & (~bits + 1));
}

}  // namespace tachy::cuda
