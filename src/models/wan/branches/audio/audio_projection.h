// AudioProjModel of InfiniteTalk. It turns the speech encoder's states for the pixel frames of a clip, E [L,
// layers, width] (states 1 to the last, at the video's rate), into n tokens for each latent frame of a
// window. If the window begins at pixel frame a:
//   x_0 = E[a-2 … a+2]                 h_0 = relu(x_0·W1 + b1)          5 rows
//   x_i = E[a+4i-5 … a+4i+2], i ≥ 1    h_i = relu(x_i·W1' + b1')        8 rows: those of its four frames and of their neighbours
//   tokens = LN(relu(h·W2 + b2)·W3 + b3)                                [T, n, width], eps 1e-5
// Before the clip's first row and past its last row, the nearest row is repeated. The ends are those of the
// clip and not of the window, so a window sees what was said before it.
//
// It runs once per window and takes 1.6 GFLOP at published sizes. So it runs on the host in float32, straight
// from the weights in their file, even if there is a GPU, whose memory they would waste.
#pragma once

#include "models/wan/wan_config.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace tachy {

struct AudioWindow {
  static constexpr int64_t kFirstRows = 5, kRows = 8;
  Tensor states;            // E, f32 on the host, contiguous; if undefined, zeros, which stand for silence
  int64_t first_frame = 0;  // a, counted in the clip's pixel frames
};

class AudioProjection {
 public:
  AudioProjection() = default;
  // `store` must be the host's (ParamStore::beside).
  AudioProjection(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  // Computes tokens [latent_frames·n, width] f32, on the host. Scratch comes from the stream's arena.
  void operator()(const AudioWindow& window, int64_t latent_frames, const Tensor& tokens,
                  Stream& stream) const;

 private:
  int64_t width_ = 0, layers_ = 0, hidden_ = 0, count_ = 0;
  nn::Linear first_, others_, middle_, last_;
  nn::Norm norm_;
};

}  // namespace tachy
