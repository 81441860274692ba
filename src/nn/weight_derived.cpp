// A weight that is kept as the source of its values. A product makes the values slab by slab, in the dtype in
// which they would be stored (float32, or the file's own 16 bits if an adapter is merged into it). y has the
// same bits as with a file that holds these values.
#include <algorithm>

#include "nn/weight_form.h"

namespace tachy::nn {
namespace {

constexpr int64_t kSlabValues = int64_t{4} << 20;  // size of the scratch, unless a row is longer

class DerivedWeight final : public WeightForm {
 public:
  explicit DerivedWeight(WeightPart weight) : weight_(std::move(weight)) {}
  const char* name() const override { return "derived"; }
  int64_t out() const override { return weight_.tensor.dim(0); }
  int64_t in() const override { return weight_.tensor.dim(1); }

  void product(ops::GemmArgs args, Stream& stream) const override {
    const int64_t step = std::clamp<int64_t>(kSlabValues / in(), 1, out());
    const ArenaScope scope(*stream.arena);
    const Tensor slab = stream.arena->tensor(weight_.tensor.dtype, {step, in()});
    for (int64_t first = 0; first < out(); first += step) {
      const int64_t end = std::min(out(), first + step);
      const Tensor rows = slab.slice(0, 0, end - first);
      if (!stream.measuring()) decode_weight(weight_, first, rows, *stream.pool);
      ops::GemmArgs own = columns_of(args, first, end);
      own.weight = rows;
      ops::gemm(own, stream);
    }
  }

 private:
  WeightPart weight_;
};

}  // namespace

WeightPtr make_derived_weight(const WeightPart& weight) { return std::make_unique<DerivedWeight>(weight); }

}  // namespace tachy::nn
