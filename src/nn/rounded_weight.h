// A matrix rounded to 8 bits with a scale a row (what ops/quantize makes of its rows), made on the host row by row
// while its file is read, so that codes and scales take their places like any other weight: uploaded, or
// streamed with their block.
//
// Codes and scales are two tensors, which take their places one after the other. Both need every value of a row, so
// the scales that were made beside the codes are kept until they are asked for: 4 bytes a row in place of a second
// look at the file, or a second decoding.
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

  // Rows from `first` on: q [count, width] of dtype() and scale [count, 1] f32, on the host, in the calling thread.
  void codes(int64_t first, const Tensor& q, const Tensor& scale) const;
  // scale [count, 1] f32 alone.
  void scales(int64_t first, const Tensor& scale) const;

  // All codes into `to` [rows, width], where the store's stream computes.
  void fill_codes(const Tensor& to, ParamStore& store) const;
  // All scales into `to` [rows, 1] f32.
  void fill_scales(const Tensor& to, ParamStore& store) const;

 private:
  struct Scratch;
  Tensor values(int64_t first, int64_t count, Scratch& scratch) const;
  int64_t rows_at_a_time() const;

  WeightPart from_;
  std::optional<StoredValues> stored_;  // of 8-bit values, each to be multiplied with its scale
  DType dtype_;
  // Of all copies of this, from any thread; 0, which no scale is, where it is not known yet.
  std::shared_ptr<std::vector<std::atomic<float>>> known_;
};

}  // namespace tachy::nn
