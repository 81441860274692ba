#include "nn/weight_form.h"

#include <algorithm>

namespace tachy::nn {

WeightPtr make_weight(std::span<const Tensor> parts, ParamStore& store) {
  if (store.on_gpu()) return make_dense_weight(parts, store);
  const auto like_first = [&](const Tensor& part) { return part.dtype == parts.front().dtype; };
  if (store.pack_weights() && std::all_of(parts.begin(), parts.end(), like_first))
    return make_packed_weight(parts, store);
  std::vector<WeightPtr> forms;
  for (const Tensor& part : parts)
    forms.push_back(store.pack_weights() ? make_packed_weight({&part, 1}, store) : make_mapped_weight(part));
  return forms.size() == 1 ? std::move(forms.front()) : make_stacked_weight(std::move(forms));
}

}  // namespace tachy::nn
