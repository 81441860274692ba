#include "nn/weight_form.h"

#include <fmt/format.h>

#include <algorithm>

namespace tachy::nn {

ops::GemmArgs WeightForm::columns_of(const ops::GemmArgs& args, int64_t first, int64_t end) {
  ops::GemmArgs own = args;
  for (Tensor ops::GemmArgs::*t : {&ops::GemmArgs::bias, &ops::GemmArgs::multiply, &ops::GemmArgs::gate,
                                   &ops::GemmArgs::residual, &ops::GemmArgs::y}) {
    const Tensor& all = args.*t;
    if (all.defined()) own.*t = all.slice(all.rank - 1, first, end);
  }
  return own;
}

// By default these throw, for forms that do not support them.
WeightForm::Matrix WeightForm::matrix(Stream&) const {
  throw Error(ErrorCode::internal, fmt::format("a weight in the form {} has no matrix", name()));
}
WeightForm::Codes WeightForm::codes_of(const Tensor&, Stream&) const {
  throw Error(ErrorCode::internal, fmt::format("a weight in the form {} reads no codes", name()));
}
void WeightForm::product_of(const Codes&, const ops::GemmArgs&, Stream&) const {
  throw Error(ErrorCode::internal, fmt::format("a weight in the form {} reads no codes", name()));
}

WeightPtr make_unpacked_weight(const WeightPart& weight) {
  return weight.derived ? make_derived_weight(weight) : make_mapped_weight(weight.tensor);
}

WeightPtr make_weight(std::span<const WeightPart> parts, ParamStore& store, const WeightUse& use) {
  if (use.eight_bits) return make_scaled_weight(parts, store);
  if (store.on_gpu()) {
    if (use.visiting)
      if (WeightPtr visiting = make_visiting_weight(parts, store)) return visiting;
    WeightPtr stored = make_stored_weight(parts, store);
    return stored ? std::move(stored) : make_dense_weight(parts, store);
  }
  const auto like_first = [&](const WeightPart& part) {
    return part.tensor.dtype == parts.front().tensor.dtype;
  };
  if (store.pack_weights() && std::all_of(parts.begin(), parts.end(), like_first))
    return make_packed_weight(parts, store);
  std::vector<WeightPtr> forms;
  for (const WeightPart& part : parts)
    forms.push_back(store.pack_weights() ? make_packed_weight({&part, 1}, store)
                                         : make_unpacked_weight(part));
  return forms.size() == 1 ? std::move(forms.front()) : make_stacked_weight(std::move(forms));
}

}  // namespace tachy::nn
