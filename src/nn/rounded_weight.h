// A matrix rounded to 8 bits with a scale per row, as ops/quantize does it. The host computes it row by row
// while the file is read, so codes and scales are stored like any other weight: they are uploaded, or
// streamed with their block.
//
// Codes and scales are two tensors, filled one after the other, and both need all values of a row. So the
// scales that were computed along with the codes are kept until they are asked for. This takes 4 bytes per
// row, and saves reading or decoding the file a second time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "nn/params.h"

namespace tachy::nn {

class RoundedWeight {
 public:
  RoundedWeight(const WeightPart& from, DType dtype);  // dtype is f8_e4m3 or i8
  int64_t rows() const { return from_.tensor.dim(0); }
  int64_t width() const { return from_.tensor.dim(1); }
  DType dtype() const { return dtype_; }

  // Rounds rows from `first` on in the calling thread: q [count, width] of dtype() and scale [count, 1] f32.
  void codes(int64_t first, const Tensor& q, const Tensor& scale) const;
  // Computes only the scales [count, 1] f32.
  void scales(int64_t first, const Tensor& scale) const;

  // Writes all codes into `to` [rows, width], where the store's stream computes.
  void fill_codes(const Tensor& to, ParamStore& store) const;
  // Writes all scales into `to` [rows, 1] f32.
  void fill_scales(const Tensor& to, ParamStore& store) const;

 private:
  struct Scratch;
  Tensor values(int64_t first, int64_t count, Scratch& scratch) const;
  int64_t rows_at_a_time() const;

  WeightPart from_;
  std::optional<StoredValues> stored_;  // 8-bit values that are to be multiplied by scales
  DType dtype_;
  // The scales that are already known, shared by all copies of this object and by all threads. No scale is 0,
  // so 0 means unknown.
  std::shared_ptr<std::vector<std::atomic<float>>> known_;
};

}  // namespace tachy::nn
