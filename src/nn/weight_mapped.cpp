// A weight that stays in the file. A product widens slabs of it into scratch as it needs them.
#include "nn/weight_form.h"

namespace tachy::nn {
namespace {

class MappedWeight final : public WeightForm {
 public:
  explicit MappedWeight(const Tensor& weight) : weight_(weight) {}
  const char* name() const override { return "mapped"; }
  int64_t out() const override { return weight_.dim(0); }
  int64_t in() const override { return weight_.dim(1); }
  void product(ops::GemmArgs args, Stream& stream) const override {
    args.weight = weight_;
    ops::gemm(args, stream);
  }

 private:
  Tensor weight_;
};

}  // namespace

WeightPtr make_mapped_weight(const Tensor& weight) { return std::make_unique<MappedWeight>(weight); }

}  // namespace tachy::nn
