// Lays out several tensors in one allocation, so that the values that the host computes for them are uploaded
// together.
#pragma once

#include <vector>

#include "nn/params.h"

namespace tachy {

class WanConstants {
 public:
  // allocate() sets `t`, which must exist until then.
  void add(Tensor& t, std::initializer_list<int64_t> dims);
  Tensor allocate(nn::ParamStore& store) const;

  // Returns the part of `host`, the values for the allocation `all`, that belongs to the tensor `t`. For an
  // undefined `t` the result is undefined.
  static Tensor on_host(const Tensor& t, const Tensor& all, std::span<float> host);

 private:
  struct Place {
    Tensor* tensor;
    std::vector<int64_t> dims;
    int64_t first;
  };
  std::vector<Place> places_;
  int64_t values_ = 0;
};

}  // namespace tachy
