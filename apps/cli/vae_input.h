// Chooses the size and the number of frames that `tachyscope vae encode` reads.
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

// Sets the size of the frames: the requested one, otherwise the input's own, reduced to a size that the VAE
// can hold.
void choose_size(const VaeCommand& options, const VideoInfo& in, int stride, Vae::Clip& clip);

// Returns a number 4n + 1, for the frames that exist or were requested.
int64_t choose_frames(const VaeCommand& options, const VideoInfo& in, int64_t stride);

}  // namespace tachy::cli
