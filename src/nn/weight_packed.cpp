// A copy, made once, in the order in which the CPU's products read it (cpu/panels.h). Several parts are
// packed as one matrix, so that one product reads x once for all of them.
#include <vector>

#include "nn/weight_form.h"

namespace tachy::nn {
namespace {

class PackedWeight final : public WeightForm {
 public:
  PackedWeight(std::span<const WeightPart> parts, ParamStore& store) : packed_(store.packed(parts)) {
    if (parts.size() == 1 && !parts.front().derived) {
      weight_ = parts.front().tensor;
      return;
    }
    int64_t rows = 0;
    std::vector<WeightPtr> unpacked;
    for (const WeightPart& part : parts) {
      rows += part.tensor.dim(0);
      unpacked.push_back(make_unpacked_weight(part));
    }
    weight_ = Tensor(nullptr, parts.front().tensor.dtype, {rows, parts.front().tensor.dim(1)});
    unpacked_ = make_stacked_weight(std::move(unpacked));
  }
  const char* name() const override { return "packed"; }
  int64_t out() const override { return weight_.dim(0); }
  int64_t in() const override { return weight_.dim(1); }
  void product(ops::GemmArgs args, Stream& stream) const override {
    args.weight = weight_, args.packed = packed_;
    if (unpacked_ && !ops::gemm_reads_packed(args, stream)) {
      args.weight = args.packed = Tensor();
      return unpacked_->product(args, stream);
    }
    ops::gemm(args, stream);
  }

 private:
  Tensor packed_;
  // If the weight has several parts or is derived, this has only their shape and dtype. The reference
  // definition does not read packed weights, so it then reads them from the file.
  Tensor weight_;
  WeightPtr unpacked_;
};

}  // namespace

WeightPtr make_packed_weight(std::span<const WeightPart> parts, ParamStore& store) {
  return std::make_unique<PackedWeight>(parts, store);
}

}  // namespace tachy::nn
