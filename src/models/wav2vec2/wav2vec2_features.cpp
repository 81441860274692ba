#include "models/wav2vec2/wav2vec2_features.h"

#include <algorithm>
#include <cmath>

#include "models/wav2vec2/conv_weight.h"
#include "nn/windows.h"
#include "ops/activation/activation.h"
#include "runtime/pace.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

constexpr int64_t kPiece = 256;       // vectors made at a time: about 5 s
constexpr float kFeatureEps = 1e-5f;  // not an option: each of these norms has torch's default

// Mean [kernel] and covariance [kernel, kernel] of all windows of the samples.
struct Moments {
  std::vector<double> mean, covariance;
};

Moments moments_of(std::span<const float> samples, int64_t kernel, int64_t stride) {
  const auto k = static_cast<size_t>(kernel), step = static_cast<size_t>(stride);
  const auto count =
      static_cast<size_t>(nn::windows_of(static_cast<int64_t>(samples.size()), kernel, stride));
  Moments m{std::vector<double>(k), std::vector<double>(k * k)};
  for (size_t i = 0; i < count; ++i)
    for (size_t a = 0; a < k; ++a) m.mean[a] += samples[i * step + a];
  for (double& v : m.mean) v /= static_cast<double>(count);
  std::vector<double> x(k);
  for (size_t i = 0; i < count; ++i) {
    for (size_t a = 0; a < k; ++a) x[a] = samples[i * step + a] - m.mean[a];
    for (size_t a = 0; a < k; ++a)
      for (size_t b = 0; b < k; ++b) m.covariance[a * k + b] += x[a] * x[b];
  }
  for (double& v : m.covariance) v /= static_cast<double>(count);
  return m;
}

// Row i of y is x at position i·(n − 1)/(frames − 1).
void interpolate_rows(const float* x, int64_t n, float* y, int64_t frames, int64_t channels) {
  for (int64_t i = 0; i < frames; ++i) {
    const double at =
        frames > 1 ? static_cast<double>(i) * static_cast<double>(n - 1) / static_cast<double>(frames - 1)
                   : 0;
    const int64_t low = std::min(static_cast<int64_t>(at), n - 1), high = std::min(low + 1, n - 1);
    const double part = at - static_cast<double>(low);
    const float *a = x + low * channels, *b = x + high * channels;
    float* to = y + i * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<float>((1 - part) * a[c] + part * b[c]);
  }
}

}  // namespace

Wav2Vec2Features::Wav2Vec2Features(const Scope& scope, const Wav2Vec2Config& c, nn::ParamStore& store)
    : config_(c) {
  int64_t in = 1;
  for (size_t i = 0; i < c.conv_dim.size(); ++i) {
    const Scope layer = scope.sub("conv_layers").sub(static_cast<int64_t>(i)), conv = layer.sub("conv");
    const int64_t out = c.conv_dim[i], kernel = c.conv_kernel[i];
    Convolution& made = convolutions_.emplace_back();
    const Tensor weight = conv.tensor("weight", {out, in, kernel});
    const Tensor bias = c.conv_bias ? conv.tensor("bias", {out}) : Tensor();
    if (i > 0) {
      made.linear = nn::Linear::from_part(conv, conv_weight(weight, 0, out), bias, store);
    } else {
      weight_ = file_values(weight);
      bias_ = bias.defined() ? file_values(bias) : std::vector<float>(static_cast<size_t>(out));
    }
    if (c.layer_features) {
      made.norm = nn::Norm::layer(layer.sub("layer_norm"), store, out, kFeatureEps);
    } else if (i == 0) {
      const Scope norm = layer.sub("layer_norm");  // it has this name although it is the group norm
      gain_ = file_values(norm.tensor("weight", {out})), shift_ = file_values(norm.tensor("bias", {out}));
    }
    in = out;
  }
}

// gain·(w·x − mean)/sqrt(var + eps) + shift equals w'·x + b'. The convolution's own bias cancels out.
void Wav2Vec2Features::fold_group_norm(std::span<const float> samples, std::span<float> weight,
                                       std::span<float> bias) const {
  const auto k = static_cast<size_t>(config_.conv_kernel[0]);
  const Moments m = moments_of(samples, config_.conv_kernel[0], config_.conv_stride[0]);
  for (size_t o = 0; o < bias.size(); ++o) {
    const float* w = weight_.data() + o * k;
    double mean = 0, variance = 0;
    for (size_t a = 0; a < k; ++a) {
      mean += w[a] * m.mean[a];
      for (size_t b = 0; b < k; ++b) variance += static_cast<double>(w[a]) * w[b] * m.covariance[a * k + b];
    }
    const double factor = gain_[o] / std::sqrt(std::max(variance, 0.0) + static_cast<double>(kFeatureEps));
    for (size_t a = 0; a < k; ++a) weight[o * k + a] = static_cast<float>(factor * w[a]);
    bias[o] = static_cast<float>(shift_[o] - factor * mean);
  }
}

Wav2Vec2Features::First Wav2Vec2Features::first_of(const Tensor& samples, Stream& stream) const {
  const int64_t out = config_.conv_dim[0], kernel = config_.conv_kernel[0];
  First first{stream.arena->tensor(DType::f32, {out, kernel}), stream.arena->tensor(DType::f32, {out})};
  if (stream.measuring()) return first;
  std::vector<float> weight = weight_, bias = bias_;
  if (!config_.layer_features)
    fold_group_norm({samples.as<float>(), static_cast<size_t>(samples.dim(0))}, weight, bias);
  upload(weight.data(), first.weight, stream);
  upload(bias.data(), first.bias, stream);
  return first;
}

void Wav2Vec2Features::convolve(size_t layer, const First& first, const Tensor& x, const Tensor& y,
                                Stream& stream) const {
  const Convolution& own = convolutions_[layer];
  const ArenaScope scope(*stream.arena);
  const ops::Activation act = own.norm.defined() ? ops::Activation::none : config_.feature_act;
  const int64_t kernel = config_.conv_kernel[layer], stride = config_.conv_stride[layer];
  if (layer == 0) {  // always in float32, because samples have more than 8 bits
    const Tensor rows = nn::windows(x, kernel, stride, DType::f32, stream);
    ops::gemm({.x = rows, .weight = first.weight, .bias = first.bias, .act = act, .y = y}, stream);
  } else {
    own.linear(nn::windows(x, kernel, stride, stream.precision.activation, stream), y, stream, {.act = act});
  }
  if (!own.norm.defined()) return;
  own.norm(y, y, stream);
  ops::activation({.x = y, .kind = config_.feature_act, .y = y}, stream);
}

void Wav2Vec2Features::piece(const Tensor& samples, const First& first, const Tensor& y, int64_t begin,
                             int64_t end, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const size_t layers = convolutions_.size();
  // Rows [from, to) of the input of each layer.
  std::vector<int64_t> from(layers + 1, begin), to(layers + 1, end);
  for (size_t i = layers; i-- > 0;) {
    from[i] = from[i + 1] * config_.conv_stride[i];
    to[i] = (to[i + 1] - 1) * config_.conv_stride[i] + config_.conv_kernel[i];
  }
  // Two buffers alternate. The input of the first layer and the result of the last one are float32.
  Tensor x = samples.view({-1, 1}).slice(0, from[0], to[0]);
  Tensor rooms[2];
  for (size_t i = 0; i < layers; ++i) {
    const int64_t rows = to[i + 1] - from[i + 1], channels = config_.conv_dim[i];
    Tensor made = y.slice(0, begin, end);
    if (i + 1 < layers) {
      const DType dtype = i == 0 ? DType::f32 : stream.precision.activation;
      if (i < 2) rooms[i] = stream.arena->f32({rows * channels});
      Tensor& room = rooms[i % 2];
      // Later layers have fewer rows, but may have more channels.
      if (rows * channels > room.numel()) room = stream.arena->f32({rows * channels});
      made = Tensor(room.data, dtype, {rows, channels}, room.device);
    }
    convolve(i, first, x, made, stream);
    x = made;
  }
}

void Wav2Vec2Features::forward(const Tensor& samples, const Tensor& y, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const First first = first_of(samples, stream);
  Tensor here = samples;
  if (stream.gpu) {
    here = stream.arena->f32({samples.dim(0)});
    upload(samples.data, here, stream);
  }
  for (int64_t begin = 0; begin < y.dim(0); begin += kPiece) {
    runtime::checkpoint(stream);
    piece(here, first, y, begin, std::min(begin + kPiece, y.dim(0)), stream);
  }
}

void Wav2Vec2Features::interpolate(const Tensor& x, const Tensor& y, Stream& stream) {
  if (stream.measuring()) return;
  const int64_t n = x.dim(0), frames = y.dim(0), channels = x.dim(1);
  if (!stream.gpu) return interpolate_rows(x.as<float>(), n, y.as<float>(), frames, channels);
  std::vector<float> from(static_cast<size_t>(x.numel())), to(static_cast<size_t>(y.numel()));
  download(x, from.data(), stream);
  interpolate_rows(from.data(), n, to.data(), frames, channels);
  upload(to.data(), y, stream);
}

}  // namespace tachy
