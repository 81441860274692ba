#include "models/wan/constants.h"

namespace tachy {

void WanConstants::add(Tensor& t, std::initializer_list<int64_t> dims) {
  constexpr int64_t kStep = 64;  // this alignment lets every tensor be read in packs of any width
  places_.push_back({&t, dims, values_});
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  values_ += (count + kStep - 1) / kStep * kStep;
}

Tensor WanConstants::allocate(nn::ParamStore& store) const {
  const Tensor all = store.allocate(DType::f32, {values_});
  for (const Place& p : places_)
    *p.tensor = Tensor(all.as<float>() + p.first, DType::f32, std::span<const int64_t>(p.dims), all.device);
  return all;
}

Tensor WanConstants::on_host(const Tensor& t, const Tensor& all, std::span<float> host) {
  if (!t.defined()) return t;
  return Tensor(host.data() + (t.as<float>() - all.as<float>()), DType::f32, t.shape());
}

}  // namespace tachy
