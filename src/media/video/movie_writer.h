// Writes mp4 and webm by encoding frames as they come. Private to src/media.
#pragma once

#include "media/pool.h"
#include "media/video/libav_output.h"
#include "media/video/video_writer.h"

namespace tachy {

class MovieWriter final : public VideoWriter {
 public:
  MovieWriter(std::filesystem::path path, int width, int height, VideoOptions options, AVRational rate,
              VideoFormat format);

 protected:
  std::unique_ptr<Ready> prepare_frame(RgbView frame) override;
  void write_frame(Ready& frame) override;
  void finish_file() override;

 private:
  // A converter and its input picture, whose rows need padding because swscale may read whole vectors.
  struct Converter {
    av::SwsPtr from_rgb;
    av::FramePtr rgb;
  };
  struct Picture final : Ready {
    av::FramePtr picture;  // YCbCr, or RGB if the file is lossless
    size_t bytes() const override;
  };

  av::Output output_;
  Pool<Converter> converters_;
  Pool<AVFrame, av::FramePtr> pictures_;
};

}  // namespace tachy
