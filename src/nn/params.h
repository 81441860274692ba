// ParamStore: the memory that a loaded component owns besides its mapped file (packed weights, vectors
// widened to float32, tables, caches), on the host or on the stream's GPU. With `plan_only` nothing is
// allocated or computed, only counted: the same constructors then tell the exact number of bytes before
// anything is loaded.
#pragma once

#include <memory>
#include <vector>

#include "tensor/memory.h"

namespace tachy::nn {

class ParamStore {
 public:
  struct Options {
    bool plan_only = false;
    bool pack_weights =
        true;  // pack GEMM weights once at load; otherwise use them where they lie in the file
  };

  ParamStore(Options options, Stream& stream) : options_(options), stream_(stream) {}

  bool plan_only() const { return options_.plan_only; }
  bool pack_weights() const { return options_.pack_weights; }
  bool on_gpu() const { return stream_.gpu != nullptr; }
  Stream& stream() const { return stream_; }
  size_t bytes() const { return bytes_; }  // of all Buffers made (or counted)

  // Uninitialised storage where the stream computes; its data is null when planning.
  Tensor allocate(DType dtype, std::span<const int64_t> dims);
  Tensor allocate(DType dtype, std::initializer_list<int64_t> dims) {
    return allocate(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor widened(const Tensor& source);  // float32 copy of a small tensor of the file, same shape
  Tensor packed(const Tensor& weight);   // GEMM weight [N, K] packed; undefined when packing is off
  Tensor uploaded(const void* host, DType dtype,
                  std::initializer_list<int64_t> dims);  // a table made on the host

  // A tensor of the file (any float dtype) into `to`, converted on the way; `to` lies where the stream
  // computes.
  void fill(const Tensor& to, const Tensor& source);

  // Moves ownership of all Buffers out, for the component that keeps the tensors.
  std::shared_ptr<const void> keep();

 private:
  Options options_;
  Stream& stream_;
  size_t bytes_ = 0;
  std::vector<Buffer> buffers_;
};

}  // namespace tachy::nn
