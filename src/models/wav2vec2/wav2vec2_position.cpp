#include "models/wav2vec2/wav2vec2_position.h"

#include <algorithm>

#include "models/wav2vec2/conv_weight.h"
#include "nn/windows.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/pace.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

constexpr int64_t kGathered = 4096;  // frames whose windows a GPU gathers at a time

}  // namespace

Wav2Vec2Position::Wav2Vec2Position(const Scope& scope, const Wav2Vec2Config& c, nn::ParamStore& store)
    : kernel_(c.pos_kernel), act_(c.feature_act) {
  const int64_t width = c.hidden_size, each = width / c.pos_groups;
  Tensor weight;
  TapFactors factors;
  if (scope.has("weight")) {  // the weight norm has been removed from this file
    weight = scope.tensor("weight", {width, each, kernel_});
  } else {
    const Tensor g = scope.tensor("parametrizations.weight.original0", {1, 1, kernel_});
    weight = scope.tensor("parametrizations.weight.original1", {width, each, kernel_});
    factors =
        store.plan_only() ? std::make_shared<const std::vector<double>>() : weight_norm_factors(g, weight);
  }
  const Tensor bias = scope.tensor("bias", {width});
  for (int64_t g = 0; g < c.pos_groups; ++g)
    groups_.push_back(nn::Linear::from_part(scope.sub(g), conv_weight(weight, g * each, each, factors),
                                            bias.slice(0, g * each, (g + 1) * each), store));
}

void Wav2Vec2Position::add(const Tensor& h, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const auto groups = static_cast<int64_t>(groups_.size());
  const int64_t frames = h.dim(0), each = h.dim(1) / groups, before = kernel_ / 2;
  const DType dtype = stream.precision.activation;
  const Tensor padded = stream.arena->tensor(dtype, {groups, frames + kernel_ - 1, each});
  zero(padded, stream);
  ops::copy(
      {.x = h.view({frames, groups, each}).transpose(0, 1), .y = padded.slice(1, before, before + frames)},
      stream);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t begin = 0; begin < frames; begin += kGathered) {
      runtime::checkpoint(stream);
      const ArenaScope inner(*stream.arena);
      const int64_t end = std::min(begin + kGathered, frames);
      const Tensor rows = padded.select(0, g).slice(0, begin, end + kernel_ - 1);
      const Tensor own = h.slice(0, begin, end).slice(1, g * each, (g + 1) * each);
      groups_[static_cast<size_t>(g)](nn::windows(rows, kernel_, 1, dtype, stream), own, stream,
                                      {.act = act_, .residual = own});
    }
}

}  // namespace tachy
