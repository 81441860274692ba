// Places for tensors in one allocation, so that what the host makes of them is one upload.
#pragma once

#include <vector>

#include "nn/params.h"

namespace tachy {

class WanConstants {
 public:
  // t: filled in by allocate(), and there until then.
  void add(Tensor& t, std::initializer_list<int64_t> dims);
  Tensor allocate(nn::ParamStore& store) const;

  // Where tensor `t` of the allocation `all` lies in values of the host that go there; an undefined one of an undefined one.
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
