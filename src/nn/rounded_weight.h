// A matrix rounded to 8 bits with a scale per row (as ops/quantize does it), computed on the host row by row
// while its file is read, so that codes and scales are stored like any other weight: uploaded, or streamed
// with their block.
//
// Codes and scales are two tensors, which are filled one after the other. Both need every value of a row. So
// the scales that were computed along with the codes are kept until they are asked for: this takes 4 bytes
// per row, and saves reading or decoding the file a second time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "nn/params.h"

namespace tachy::nn {

class RoundedWeight {
 public:
  RoundedWeight(const WeightPart& from, DType dtype);  // f8_e4m3 or i8
  int64_t rows() const { return from_.tensor.dim(0); }
  int64_t width() const { return from_.tensor.dim(1); }
  DType dtype() const { return dtype_; }

  // Rounds rows from `first` on, on the host, in the calling thread: q [count, width] of dtype() and scale
  // [count, 1] f32.
  void codes(int64_t first, const Tensor& q, const Tensor& scale) const;
  // Only scale [count, 1] f32.
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
  std::optional<StoredValues> stored_;  // 8-bit values, each to be multiplied by its scale
  DType dtype_;
  // The scales found so far, shared by all copies of this object and by all threads. 0, which no scale is,
  // means not yet known.
  std::shared_ptr<std::vector<std::atomic<float>>> known_;
};

}  // namespace tachy::nn
