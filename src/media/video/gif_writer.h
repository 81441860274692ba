// Writes a GIF. It keeps all frames, makes one palette for them at the end, and the encoder stores the
// changes between frames. Private to src/media.
#pragma once

#include "media/picture/palette.h"
#include "media/video/libav_output.h"
#include "media/video/video_writer.h"

namespace tachy {

class GifWriter final : public VideoWriter {
 public:
  GifWriter(std::filesystem::path path, int width, int height, VideoOptions options, AVRational rate);

 protected:
  std::unique_ptr<Ready> prepare_frame(RgbView frame) override;
  void write_frame(Ready& frame) override;
  void finish_file() override;

 private:
  struct Copy final : Ready {
    RgbFrame frame;
    size_t bytes() const override { return frame.rgb.size(); }
  };

  av::Output output_;
  ColorHistogram histogram_;
  std::vector<RgbFrame> kept_;
};

// Returns the text of all comment extensions of a GIF. Throws corrupt for a damaged file.
std::string gif_comment(const std::filesystem::path& path);

}  // namespace tachy
