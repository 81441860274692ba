#include "nn/adapter_values.h"

#include <algorithm>

#include "nn/adapter_set.h"

namespace tachy::nn {
namespace {

// Reads values [begin, begin + count) of a contiguous tensor as float32.
void widen_some(const Tensor& from, int64_t begin, int64_t count, float* to) {
  ThreadPool alone(1);
  const Tensor some(static_cast<char*>(from.data) + begin * dtype_size(from.dtype), from.dtype, {count});
  convert_weight(some, Tensor(to, DType::f32, {count}), alone);
}

// One matrix of each adapter, stacked.
class Stacked : public DerivedTensor {
 public:
  Stacked(const LayerAdapters& adapters, Tensor LowRank::*matrix, int64_t rank) : rank_(rank) {
    for (const LowRank* adapter : adapters) matrices_.push_back(adapter->*matrix);
  }
  std::string_view encoding() const override { return "adapters"; }

 protected:
  std::vector<Tensor> matrices_;
  int64_t rank_;
};

class Below final : public Stacked {
 public:
  using Stacked::Stacked;
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t end = first + rows.dim(0), in = matrices_.front().dim(1);
    std::fill_n(rows.as<float>(), rows.numel(), 0.0f);
    int64_t begin = 0;  // the first row of this matrix
    for (const Tensor& a : matrices_) {
      const int64_t from = std::max(first, begin), to = std::min(end, begin + a.dim(0));
      if (from < to)
        widen_some(a, (from - begin) * in, (to - from) * in, rows.as<float>() + (from - first) * in);
      begin += a.dim(0);
    }
  }
};

class SideBySide final : public Stacked {
 public:
  using Stacked::Stacked;
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t count = rows.dim(0);
    float* const out = rows.as<float>();
    std::fill_n(out, rows.numel(), 0.0f);
    std::vector<float> values;
    int64_t column = 0;
    for (const Tensor& b : matrices_) {
      const int64_t r = b.dim(1);
      values.resize(static_cast<size_t>(count * r));
      widen_some(b, first * r, count * r, values.data());
      for (int64_t i = 0; i < count; ++i) std::copy_n(values.data() + i * r, r, out + i * rank_ + column);
      column += r;
    }
  }
};

}  // namespace

int64_t padded_rank(const LayerAdapters& adapters, bool on_device) {
  int64_t rank = 0;
  for (const LowRank* adapter : adapters) rank += adapter->a.dim(0);
  if (!on_device) return (rank + 7) / 8 * 8;
  for (const int64_t size : {16, 32, 64, 128, 256})
    if (rank <= size) return size;
  return (rank + 511) / 512 * 512;
}

WeightPart stacked_a(const LayerAdapters& adapters, int64_t rank) {
  return {Tensor(nullptr, DType::f32, {rank, adapters.front()->a.dim(1)}),
          std::make_shared<Below>(adapters, &LowRank::a, rank)};
}

WeightPart stacked_b(const LayerAdapters& adapters, int64_t rank) {
  const int64_t out = adapters.front()->b.dim(0);
  return {Tensor(nullptr, DType::f32, {out, rank}),
          std::make_shared<SideBySide>(adapters, &LowRank::b, rank)};
}

}  // namespace tachy::nn
