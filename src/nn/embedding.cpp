#include "nn/embedding.h"

#include "ops/embedding/embedding.h"

namespace tachy::nn {

Embedding::Embedding(const Scope& scope, int64_t count, int64_t width)
    : count_(count), derived_(scope.derived("weight", std::initializer_list<int64_t>{count, width})) {
  if (!derived_) table_ = scope.tensor("weight", {count, width});
}

void Embedding::operator()(const Tensor& ids, const Tensor& y, Stream& host) const {
  if (!derived_) return ops::embedding({.ids = ids, .table = table_, .y = y}, host);
  if (host.measuring()) return;
  const int64_t* id = ids.as<int64_t>();
  for (int64_t i = 0; i < ids.dim(0); ++i)
    require(id[i] >= 0 && id[i] < count_, "embedding: expected ids[{}] in [0, {}), got {}", i, count_, id[i]);
  host.pool->run(ids.dim(0), [&](int64_t i, int) { derived_->decode(id[i], y.slice(0, i, i + 1)); });
}

}  // namespace tachy::nn
