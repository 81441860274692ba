// AudioProjModel of InfiniteTalk. The speech encoder's states for a clip's pixel frames, E [L, layers, width]
// (states 1 to the last, at the video's rate), become n tokens for each latent frame of a window that begins
// at pixel frame a:
//   x_0 = E[a-2 … a+2]                 h_0 = relu(x_0·W1 + b1)          5 rows
//   x_i = E[a+4i-5 … a+4i+2], i ≥ 1    h_i = relu(x_i·W1' + b1')        8 rows: those of its four frames and of their neighbours
//   tokens = LN(relu(h·W2 + b2)·W3 + b3)                                [T, n, width], eps 1e-5
// Before the clip's first row the first one is repeated, past its last row the last one. These are the ends
// of the clip, not of the window, so that a window looks back at what was said before it.
//
// It runs once per window and takes 1.6 GFLOP at published sizes. So it runs in float32 on the host, straight
// from the weights in their file, even if there is a GPU, whose memory they would fill for nothing.
#pragma once

#include "models/wan/wan_config.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace tachy {

struct AudioWindow {
  static constexpr int64_t kFirstRows = 5, kRows = 8;
  Tensor states;            // E, f32 on the host, contiguous; undefined: zeros, which stand for silence
  int64_t first_frame = 0;  // a, counted in the clip's pixel frames
};

class AudioProjection {
 public:
  AudioProjection() = default;
  // `store` is the host's (ParamStore::beside).
  AudioProjection(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  // tokens [latent_frames·n, width] f32; everything is on the host. Scratch comes from the stream's arena.
  void operator()(const AudioWindow& window, int64_t latent_frames, const Tensor& tokens,
                  Stream& stream) const;

 private:
  int64_t width_ = 0, layers_ = 0, hidden_ = 0, count_ = 0;
  nn::Linear first_, others_, middle_, last_;
  nn::Norm norm_;
};

}  // namespace tachy
