// What every user of FFmpeg's libraries here needs: owners, quiet logging, error texts, colour conversion.
//
// Only functions that FFmpeg 5.1, 6 and 7 share without deprecation are used. Private to src/media.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/dict.h>
#include <libavutil/frame.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "media/frame.h"

namespace tachy::av {

struct Deleter {
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};
using FramePtr = std::unique_ptr<AVFrame, Deleter>;
using PacketPtr = std::unique_ptr<AVPacket, Deleter>;
using CodecPtr = std::unique_ptr<AVCodecContext, Deleter>;
using SwsPtr = std::unique_ptr<SwsContext, Deleter>;

FramePtr new_frame();
PacketPtr new_packet();
CodecPtr new_codec(const AVCodec* codec);
FramePtr new_picture(AVPixelFormat format, int width, int height);  // with aligned, padded storage

// The libraries' own messages go to TACHY_LOG=media; errors of this thread are also kept for reason().
// Called by every entry point; forgets what was kept.
void quiet();
// "No space left on device (libx264: …)": the code's text and what the libraries said since quiet().
std::string reason(int code);

// Options by name; the ones that this version does not know are ignored.
using Options = std::vector<std::pair<std::string, std::string>>;
class Dictionary {
 public:
  explicit Dictionary(const Options& options);
  ~Dictionary() { av_dict_free(&dict_); }
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;
  AVDictionary** get() { return &dict_; }

 private:
  AVDictionary* dict_ = nullptr;
};

// How YCbCr numbers are to be read: an SWS_CS_* matrix, and whether they use all 256 steps.
struct Color {
  int matrix = SWS_CS_ITU709;
  bool full_range = false;
  // Chroma lies between the pixels, as in JPEG and WebP, whose decoders enlarge it linearly; else on the left
  // column, as H.264 and VP9 have it by default.
  bool centered_chroma = false;
};

// Pixel conversion without scaling, at swscale's best
// accuracy, chroma sited as H.264 and VP9 have it by default.
SwsPtr new_converter(int width, int height, AVPixelFormat from, Color from_color, AVPixelFormat to,
                     Color to_color);

bool is_rgb(AVPixelFormat format);

// swscale stretches chroma by ceil(n/2) to n instead of 2: with an odd side it drifts by up to a pixel. So
// odd frames are converted inside pictures of even sides.
constexpr int even(int n) { return (n + 1) / 2 * 2; }

void copy_rgb(RgbView from,
              AVFrame& to);  // into an RGB24 picture at least that large; the last pixels are repeated
void copy_planes(const AVFrame& from, AVFrame& to, int width,
                 int height);  // the top left corner; same format

// Decoded frames to RGB, whatever their format; keeps the converter between frames.
class ToRgb {
 public:
  RgbFrame convert(const AVFrame& frame, bool still_image);

 private:
  SwsPtr enlarge_, converter_;
  FramePtr rgb_, padded_, full_;
  int width_ = 0, height_ = 0, format_ = -1;
  Color color_;
};

}  // namespace tachy::av
