// Several stacked weights, each in its own form, each of which makes its own columns of y.
#include <vector>

#include "nn/weight_form.h"

namespace tachy::nn {
namespace {

class StackedWeight final : public WeightForm {
 public:
  explicit StackedWeight(std::vector<WeightPtr> parts) : parts_(std::move(parts)) {
    for (const WeightPtr& part : parts_) out_ += part->out();
  }
  const char* name() const override { return parts_.front()->name(); }
  int64_t out() const override { return out_; }
  int64_t in() const override { return parts_.front()->in(); }
  void product(ops::GemmArgs args, Stream& stream) const override {
    int64_t first = 0;
    for (const WeightPtr& part : parts_) {
      const ops::GemmArgs own = columns_of(args, first, first + part->out());
      part->product(own, stream);
      first += part->out();
    }
  }

 private:
  std::vector<WeightPtr> parts_;
  int64_t out_ = 0;
};

}  // namespace

WeightPtr make_stacked_weight(std::vector<WeightPtr> parts) {
  return std::make_unique<StackedWeight>(std::move(parts));
}

}  // namespace tachy::nn
