// cuBLASLt's functions, looked up in the library when it is opened, and its errors as ours.
#pragma once

#include <cublasLt.h>

#include "base/error.h"
#include "cuda/vendor/vendor_library.h"

namespace tachy::cuda {

struct CublasLtApi {
  VendorLibrary library;
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtGetVersion)* version;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulDescCreate)* create_desc;
  decltype(cublasLtMatmulDescDestroy)* destroy_desc;
  decltype(cublasLtMatmulDescSetAttribute)* set_desc;
  decltype(cublasLtMatrixLayoutCreate)* create_layout;
  decltype(cublasLtMatrixLayoutDestroy)* destroy_layout;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference;
  decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulAlgoCheck)* check_algorithm;
  decltype(cublasLtGetStatusString)* status_string;

  void check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::device,
         "cublaslt: {}: {}", what, status_string(status));
  }
  void open() {
    const VendorLibrary& l = library;
    l.find("cublasLtCreate", create), l.find("cublasLtDestroy", destroy);
    l.find("cublasLtGetVersion", version), l.find("cublasLtMatmul", matmul);
    l.find("cublasLtMatmulDescCreate", create_desc), l.find("cublasLtMatmulDescDestroy", destroy_desc);
    l.find("cublasLtMatmulDescSetAttribute", set_desc);
    l.find("cublasLtMatrixLayoutCreate", create_layout);
    l.find("cublasLtMatrixLayoutDestroy", destroy_layout);
    l.find("cublasLtMatmulPreferenceCreate", create_preference);
    l.find("cublasLtMatmulPreferenceDestroy", destroy_preference);
    l.find("cublasLtMatmulPreferenceSetAttribute", set_preference);
    l.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    l.find("cublasLtMatmulAlgoCheck", check_algorithm);
    l.find("cublasLtGetStatusString", status_string);
  }
};

}  // namespace tachy::cuda
