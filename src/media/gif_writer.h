// GIF: all frames are kept, one palette is made of them at the end, the encoder stores what changes between
// frames. Private to src/media.
#pragma once

#include "media/libav_output.h"
#include "media/palette.h"
#include "media/video_writer.h"

namespace tachy {

class GifWriter final : public VideoWriter {
 public:
  GifWriter(std::filesystem::path path, int width, int height, VideoOptions options, AVRational rate);

 protected:
  void write_frame(RgbView frame) override;
  void finish_file() override;

 private:
  av::Output output_;
  ColorHistogram histogram_;
  std::vector<RgbFrame> kept_;
};

// The text of all comment extensions of a GIF. Throws corrupt.
std::string gif_comment(const std::filesystem::path& path);

}  // namespace tachy
