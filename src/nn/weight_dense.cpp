// A copy in the activations' dtype, where the stream computes. Its parts are stacked into one matrix.
#include "nn/weight_form.h"

namespace tachy::nn {
namespace {

class DenseWeight final : public WeightForm {
 public:
  DenseWeight(std::span<const WeightPart> parts, ParamStore& store) {
    int64_t rows = 0;
    for (const WeightPart& part : parts) rows += part.tensor.dim(0);
    weight_ = store.allocate(store.stream().precision.activation, {rows, parts.front().tensor.dim(1)});
    int64_t first = 0;
    for (const WeightPart& part : parts) {
      const int64_t end = first + part.tensor.dim(0);
      store.fill(weight_.slice(0, first, end), part);
      first = end;
    }
  }
  const char* name() const override { return "dense"; }
  int64_t out() const override { return weight_.dim(0); }
  int64_t in() const override { return weight_.dim(1); }
  void product(ops::GemmArgs args, Stream& stream) const override {
    args.weight = weight_;
    ops::gemm(args, stream);
  }
  bool has_matrix() const override { return true; }
  Matrix matrix(Stream&) const override { return {.values = weight_}; }

 private:
  Tensor weight_;
};

}  // namespace

WeightPtr make_dense_weight(std::span<const WeightPart> parts, ParamStore& store) {
  return std::make_unique<DenseWeight>(parts, store);
}

}  // namespace tachy::nn
