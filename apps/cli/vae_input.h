// What `tachyscope vae encode` reads: how large and how many its frames become.
#pragma once

#include <optional>
#include <string>

#include "api/vae.h"
#include "media/video/video_reader.h"

namespace tachy::cli {

struct VaeCommand {
  std::string what, input, model, output, size, image_fit = "stretch", device, dtype, encode_speed,
                                                vae_math = "auto";
  std::optional<int> frames;
  std::optional<double> fps;
  int threads = 0, crf = -1;
  bool raw = false, json = false, quiet = false;
};

// The size that frames are made: as asked for, otherwise the input's own, cut down to what the VAE can hold.
void choose_size(const VaeCommand& options, const VideoInfo& in, int stride, Vae::Clip& clip);

// 4n + 1 of those that there are, or that were asked for.
int64_t choose_frames(const VaeCommand& options, const VideoInfo& in, int64_t stride);

}  // namespace tachy::cli
