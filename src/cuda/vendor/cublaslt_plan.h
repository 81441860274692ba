// A product in cuBLASLt's description, and the library's suggestions for it.
#pragma once

#include <string>
#include <vector>

#include "cuda/vendor/cublaslt.h"
#include "cuda/vendor/cublaslt_api.h"

namespace tachy::cuda {

inline constexpr size_t kMostWorkspace = kMatmulWorkspaceBytes;

struct CublasLtPlan final : MatmulPlan {
  const CublasLtApi* api = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algo{};
  bool bias = false, scales = false, adds = false;  // adds: c is added to the product
  ~CublasLtPlan() override {
    if (desc) api->destroy_desc(desc);
    for (auto* layout : {w, x, y, c})
      if (layout) api->destroy_layout(layout);
  }
};

// A product's name in the table of plans, in the file of kept algorithms and in messages.
std::string key_of(const MatmulShape& shape);

// Makes the plan's descriptor and layouts; p.api must be set.
void describe_product(CublasLtPlan& p, const MatmulShape& shape);

// The library's suggestions, best first; empty if it has no algorithm.
std::vector<cublasLtMatmulHeuristicResult_t> candidates(const CublasLtApi& api, cublasLtHandle_t handle,
                                                        const CublasLtPlan& p, const MatmulShape& shape);

}  // namespace tachy::cuda
