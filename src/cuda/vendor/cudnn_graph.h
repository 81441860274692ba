// Descriptors of one cuDNN graph and the steps that several graphs share: tensors and pointwise operations.
// Steps that only one op needs (matmul, reduction, convolution) are added by derived classes. The descriptors
// may be destroyed once the graph's plans are made.
#pragma once

#include <cudnn_backend.h>

#include <list>
#include <span>
#include <vector>

#include "cuda/vendor/cudnn.h"

namespace tachy::cuda {

class CudnnGraph {
 public:
  CudnnGraph(const Cudnn& cudnn, cudnnDataType_t io) : cudnn_(cudnn), io_(io) {}

  // alignment is in bytes; by_value means a host scalar.
  CudnnDescriptor* tensor(int64_t id, std::span<const int64_t> dims, std::span<const int64_t> strides,
                          cudnnDataType_t type, int64_t alignment, bool is_virtual = false,
                          bool by_value = false) {
    CudnnDescriptor& d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const auto rank = static_cast<int64_t>(dims.size());
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, "tensor");
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "tensor");
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims.data(), "tensor");
    d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data(), "tensor");
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "tensor");
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, "tensor");
    if (by_value) d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, "tensor");
    d.finalize("tensor");
    return &d;
  }
  // y = mode(x[, b]); b may be null.
  void pointwise(cudnnPointwiseMode_t mode, CudnnDescriptor* x, CudnnDescriptor* b, CudnnDescriptor* y) {
    CudnnDescriptor& kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, "pointwise");
    kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &kFloat, "pointwise");
    kind.finalize("pointwise");
    CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &kind);
    link(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) link(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    link(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    op.finalize("pointwise");
  }
  const std::vector<CudnnDescriptor*>& operations() const { return operations_; }

 protected:
  static constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;
  CudnnDescriptor& make(int type) { return all_.emplace_back(cudnn_.api(), type); }
  CudnnDescriptor& operation(int type) {
    CudnnDescriptor& op = make(type);
    operations_.push_back(&op);
    return op;
  }
  static void link(CudnnDescriptor& op, int attribute, CudnnDescriptor* to) {
    void* raw = to->get();
    op.set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw, "operation");
  }

  const Cudnn& cudnn_;
  cudnnDataType_t io_;

 private:
  std::list<CudnnDescriptor> all_;
  std::vector<CudnnDescriptor*> operations_;
};

}  // namespace tachy::cuda
