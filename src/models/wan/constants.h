// Lays out several tensors in one allocation, so that the values that the host computes for
// them are uploaded at once.
#pragma once

#include <vector>

#include "nn/params.h"

namespace tachy {

class WanConstants {
 public:
  // `t` is set by allocate(), and must exist until then.
  void add(Tensor& t, std::initializer_list<int64_t> dims);
  Tensor allocate(nn::ParamStore& store) const;

  // Finds where tensor `t` of the allocation `all` lies within `host`, the values that will go there. An
  // undefined `t` gives an undefined tensor.
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
