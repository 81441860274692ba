// The tensors of a stage: inputs by name from the file `input`, and outputs for the file `out`.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/stage.h"
#include "tensor/memory.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy {

// Owns the copies of the tensors that it hands out.
class StageIo {
 public:
  explicit StageIo(const StageRequest& request);

  bool has(std::string_view name) const { return source_ && source_->has(name); }

  // Returns a float input widened to float32, or an integer one as i64.
  Tensor input(const std::string& name, int rank_min, int rank_max);

  Tensor allocate(DType dtype, std::span<const int64_t> dims);
  Tensor output(const std::string& name, DType dtype, std::initializer_list<int64_t> dims);
  // Gives the most recent output another shape of the same size.
  void reshape_last(std::span<const int64_t> dims);

  void write();

 private:
  Tensor to_f32(const Tensor& raw);
  Tensor to_i64(const Tensor& raw, const std::string& name);

  const StageRequest& request_;
  std::shared_ptr<TensorSource> source_;
  std::vector<std::shared_ptr<const void>> keep_;
  std::vector<Buffer> buffers_;
  std::vector<NamedTensor> outputs_;
};

}  // namespace tachy
