#include "vae_input.h"

#include <algorithm>

#include "base/error.h"
#include "base/field.h"
#include "base/log.h"
#include "commands.h"
#include "generate_options.h"

namespace tachy::cli {
namespace {

int64_t count_frames(const std::string& input) {
  const auto reader = VideoReader::open(input);
  RgbFrame frame;
  int64_t count = 0;
  while (reader->read(frame)) {
    check(!g_cancel, ErrorCode::cancelled, "cancelled");
    ++count;
  }
  return count;
}

}  // namespace

void choose_size(const VaeCommand& o, const VideoInfo& in, int stride, Vae::Clip& clip) {
  int width = in.width / stride * stride, height = in.height / stride * stride;
  if (!o.size.empty()) {
    parse_size(o.size, width, height);
    require(width % stride == 0 && height % stride == 0 && width <= kMaxImageSide && height <= kMaxImageSide,
            "--size: {} is not in multiples of {}, which this VAE needs; {}x{} would work", o.size, stride,
            std::max(width / stride, 1) * stride, std::max(height / stride, 1) * stride);
  }
  require(width > 0 && height > 0,
          "{}: {}x{} is smaller than the {} pixels that this VAE needs at least; --size makes it larger",
          o.input, in.width, in.height, stride);
  if (o.size.empty() && (width != in.width || height != in.height))
    warn("{}: {}x{} becomes {}x{}, in multiples of {}; --size chooses another size", o.input, in.width,
         in.height, width, height, stride);
  const double shape = double(in.width) / in.height, video = double(width) / height;
  if (o.image_fit == "stretch" && std::max(shape / video, video / shape) > 1.05)
    warn("{}: {}x{} is stretched to {}x{}; --image-fit crop keeps its proportions", o.input, in.width,
         in.height, width, height);
  clip.width = width, clip.height = height;
}

int64_t choose_frames(const VaeCommand& o, const VideoInfo& in, int64_t stride) {
  if (o.frames) check_range("frames", *o.frames, Range{1, 65536});
  const int64_t there = o.frames ? *o.frames : in.frames > 0 ? in.frames : count_frames(o.input);
  require(there > 0, "{}: it has no frames", o.input);
  const int64_t frames = (there - 1) / stride * stride + 1;
  if (frames != there)
    warn("{}: of {} frames the first {} are encoded, {}n + 1, since {} make one latent frame", o.input, there,
         frames, stride, stride);
  return frames;
}

}  // namespace tachy::cli
