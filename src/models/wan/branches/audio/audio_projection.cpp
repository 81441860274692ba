#include "models/wan/branches/audio/audio_projection.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tachy {
namespace {

constexpr float kNormEps = 1e-5f;

// Copies `count` rows of the clip from row `first` on. Rows outside of the clip are those at its ends.
void gather(const Tensor& states, int64_t first, int64_t count, float* to) {
  const int64_t last = states.dim(0) - 1, row = states.dim(1) * states.dim(2);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * row, states.as<float>() + std::clamp<int64_t>(first + i, 0, last) * row,
                static_cast<size_t>(row) * sizeof(float));
}

// These few thousand values are too few for an op.
void relu(const Tensor& x, const Stream& stream) {
  if (stream.measuring()) return;
  auto* values = x.as<float>();
  for (int64_t i = 0; i < x.numel(); ++i) values[i] = std::max(values[i], 0.0f);
}

}  // namespace

AudioProjection::AudioProjection(const Scope& scope, const WanConfig& c, nn::ParamStore& store)
    : width_(c.audio_dim), layers_(c.audio_layers), hidden_(c.audio_hidden), count_(c.audio_tokens) {
  const int64_t row = layers_ * width_;
  first_ = nn::Linear(scope.sub("proj1"), store, AudioWindow::kFirstRows * row, hidden_);
  others_ = nn::Linear(scope.sub("proj1_vf"), store, AudioWindow::kRows * row, hidden_);
  middle_ = nn::Linear(scope.sub("proj2"), store, hidden_, hidden_);
  last_ = nn::Linear(scope.sub("proj3"), store, hidden_, count_ * width_);
  norm_ = nn::Norm::layer(scope.sub("norm"), store, width_, kNormEps);
}

void AudioProjection::operator()(const AudioWindow& window, int64_t latent_frames, const Tensor& tokens,
                                 Stream& stream) const {
  const Tensor& states = window.states;
  if (states.defined()) {
    expect_shape("audio projection", "states", states, {-1, layers_, width_});
    require(states.dim(0) > 0, "audio projection: the clip has no frames");
  }
  expect_shape("audio projection", "tokens", tokens, {latent_frames * count_, width_});
  const ArenaScope scope(*stream.arena);
  const int64_t row = layers_ * width_, others = latent_frames - 1;
  constexpr int64_t kFirst = AudioWindow::kFirstRows, kRows = AudioWindow::kRows;
  const Tensor x0 = stream.arena->f32({1, kFirst * row}),
               x = stream.arena->f32({std::max<int64_t>(others, 1), kRows * row}),
               h = stream.arena->f32({latent_frames, hidden_}),
               g = stream.arena->f32({latent_frames, hidden_});
  if (!stream.measuring()) {
    std::fill_n(x0.as<float>(), x0.numel(), 0.0f);
    std::fill_n(x.as<float>(), x.numel(), 0.0f);
    const int64_t a = window.first_frame;
    if (states.defined()) {
      gather(states, a - 2, kFirst, x0.as<float>());
      for (int64_t i = 1; i <= others; ++i)
        gather(states, a + 4 * i - 5, kRows, x.as<float>() + (i - 1) * kRows * row);
    }
  }
  first_(x0, h.slice(0, 0, 1), stream);
  if (others > 0) others_(x, h.slice(0, 1, latent_frames), stream);
  relu(h, stream);
  middle_(h, g, stream);
  relu(g, stream);
  last_(g, tokens.view({latent_frames, count_ * width_}), stream);
  norm_(tokens, tokens, stream);
}

}  // namespace tachy
