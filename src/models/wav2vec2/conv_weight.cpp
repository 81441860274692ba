#include "models/wav2vec2/conv_weight.h"

#include <cmath>

#include "weights/entry_values.h"

namespace tachy {
namespace {

TensorSource::Entry entry_of(const Tensor& t) {
  TensorSource::Entry entry;
  entry.dtype = t.dtype, entry.data = t.data;
  entry.dims.assign(t.shape().begin(), t.shape().end());
  return entry;
}

class ConvWeight final : public DerivedTensor {
 public:
  ConvWeight(const Tensor& weight, int64_t first, TapFactors factors)
      : weight_(entry_of(weight)), first_(first), factors_(std::move(factors)) {}
  std::string_view encoding() const override { return "taps first"; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t channels = weight_.dims[1], taps = weight_.dims[2], width = channels * taps;
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t o = 0; o < rows.dim(0); ++o) {
      entry_values(weight_, (first_ + first + o) * width, row);
      float* to = rows.as<float>() + o * width;
      for (int64_t t = 0; t < taps; ++t) {
        const double factor = factors_ ? (*factors_)[static_cast<size_t>(t)] : 1;
        for (int64_t c = 0; c < channels; ++c)
          to[t * channels + c] = static_cast<float>(factor * row[static_cast<size_t>(c * taps + t)]);
      }
    }
  }

 private:
  TensorSource::Entry weight_;
  int64_t first_;
  TapFactors factors_;
};

}  // namespace

// Values that have 16 bits in the file keep their dtype; all others become float32.
nn::WeightPart conv_weight(const Tensor& weight, int64_t first, int64_t rows, const TapFactors& factors) {
  const bool kept = !factors && (weight.dtype == DType::f16 || weight.dtype == DType::bf16);
  return {Tensor(nullptr, kept ? weight.dtype : DType::f32, {rows, weight.dim(1) * weight.dim(2)}),
          std::make_shared<ConvWeight>(weight, first, factors)};
}

std::vector<float> file_values(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  entry_values(entry_of(t), 0, values);
  return values;
}

TapFactors weight_norm_factors(const Tensor& g, const Tensor& v) {
  const int64_t taps = v.dim(2), rows = v.dim(0), width = v.dim(1) * taps;
  std::vector<double> squares(static_cast<size_t>(taps));
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t o = 0; o < rows; ++o) {
    entry_values(entry_of(v), o * width, row);
    for (size_t i = 0; i < row.size(); ++i)
      squares[i % squares.size()] += static_cast<double>(row[i]) * row[i];
  }
  const std::vector<float> gains = file_values(g);
  for (size_t t = 0; t < squares.size(); ++t) squares[t] = gains[t] / std::sqrt(squares[t]);
  return std::make_shared<const std::vector<double>>(std::move(squares));
}

}  // namespace tachy
