// Measures what a frame costs as a JPEG: libjpeg (media/picture/jpeg.h) compared with FFmpeg's encoder with
// the conversion that it needs.
//
//   lab_jpeg_frames CLIP [WIDTHxHEIGHT …]      default: 160x96 640x352
//
// CLIP is a video, such as docs/clips/nod.mp4; its frames are resized and get film grain. The results are the
// CPU time of one thread per frame, as the median of five rounds over 24 frames, and the mean size.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "media/picture/jpeg.h"
#include "media/video/libav.h"
#include "test_frames.h"

namespace tachy::lab {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Encode>
void measure(const char* name, const std::vector<RgbFrame>& frames, const Encode& encode) {
  std::vector<double> rounds;
  size_t bytes = 0;
  for (int round = 0; round < 6; ++round) {
    bytes = 0;
    const double begin = cpu_seconds();
    for (const RgbFrame& frame : frames) bytes += encode(frame);
    if (round > 0) rounds.push_back((cpu_seconds() - begin) / static_cast<double>(frames.size()));
  }
  std::sort(rounds.begin(), rounds.end());
  fmt::print("{}x{}  {:10} {:7.1f} us a frame, {:.1f} KB\n", frames[0].width, frames[0].height, name,
             rounds[rounds.size() / 2] * 1e6,
             static_cast<double>(bytes) / static_cast<double>(frames.size()) / 1e3);
}

// FFmpeg's encoder with its fixed Huffman tables, which is the closest to what libjpeg does.
class ByFfmpeg {
 public:
  ByFfmpeg(int width, int height) {
    av::quiet();
    const AVCodec* codec = avcodec_find_encoder(AV_CODEC_ID_MJPEG);
    check(codec != nullptr, ErrorCode::unsupported, "this FFmpeg has no encoder of JPEG");
    codec_ = av::new_codec(codec);
    codec_->width = width, codec_->height = height, codec_->thread_count = 1;
    codec_->pix_fmt = AV_PIX_FMT_YUVJ420P, codec_->time_base = {1, 25};
    codec_->flags |= AV_CODEC_FLAG_QSCALE;
    codec_->global_quality = FF_QP2LAMBDA * 3;
    av::Dictionary options(av::Options{{"huffman", "default"}});
    check(avcodec_open2(codec_.get(), codec, options.get()) >= 0, ErrorCode::unsupported, "no encoder");
    converter_ = av::new_converter(width, height, AV_PIX_FMT_RGB24, {SWS_CS_ITU709, true}, AV_PIX_FMT_YUV420P,
                                   {SWS_CS_ITU601, true, true});
    rgb_ = av::new_picture(AV_PIX_FMT_RGB24, width, height);
    packet_ = av::new_packet();
  }
  size_t operator()(const RgbFrame& frame) {
    av::copy_rgb(frame.view(), *rgb_);
    auto yuv = av::new_picture(AV_PIX_FMT_YUVJ420P, frame.width, frame.height);
    sws_scale(converter_.get(), rgb_->data, rgb_->linesize, 0, frame.height, yuv->data, yuv->linesize);
    yuv->quality = codec_->global_quality;
    yuv->pts = index_++;
    check(avcodec_send_frame(codec_.get(), yuv.get()) >= 0 &&
              avcodec_receive_packet(codec_.get(), packet_.get()) >= 0,
          ErrorCode::internal, "the encoder failed");
    const auto bytes = static_cast<size_t>(packet_->size);
    av_packet_unref(packet_.get());
    return bytes;
  }

 private:
  av::CodecPtr codec_;
  av::SwsPtr converter_;
  av::FramePtr rgb_;
  av::PacketPtr packet_;
  int64_t index_ = 0;
};

int run(int argc, char** argv) {
  require(argc >= 2, "lab_jpeg_frames CLIP [WIDTHxHEIGHT …]");
  const std::vector<RgbFrame> clip = read_video(argv[1]);
  std::vector<std::string> sizes(argv + 2, argv + argc);
  if (sizes.empty()) sizes = {"160x96", "640x352"};
  for (const std::string& size : sizes) {
    const int width = std::stoi(size), height = std::stoi(size.substr(size.find('x') + 1));
    std::vector<RgbFrame> frames;
    for (int t = 0; t < 24; ++t) frames.push_back(film_frame(clip, width, height, t));
    JpegEncoder libjpeg;
    std::vector<uint8_t> out;
    measure("libjpeg", frames, [&](const RgbFrame& frame) {
      out.clear();
      libjpeg.encode(frame.view(), out);
      return out.size();
    });
    ByFfmpeg ffmpeg(width, height);
    measure("FFmpeg", frames, [&](const RgbFrame& frame) { return ffmpeg(frame); });
  }
  return 0;
}

}  // namespace
}  // namespace tachy::lab

int main(int argc, char** argv) {
  try {
    return tachy::lab::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
