// Shared parts for all users of FFmpeg's libraries: owners, quiet logging, error texts, colour conversion.
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

// Sends the libraries' own messages to TACHY_LOG=media; errors of this thread are also kept for reason().
// Every entry point calls this; it forgets earlier messages.
void quiet();
// "No space left on device (libx264: …)": the text for the code, and the libraries' messages since quiet().
std::string reason(int code);

// Options by name; those that this version does not know are ignored.
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

// How to read YCbCr numbers: an SWS_CS_* matrix, and whether they use all 256 steps.
struct Color {
  int matrix = SWS_CS_ITU709;
  bool full_range = false;
  // Chroma lies between the pixels, as in JPEG and WebP, whose decoders enlarge it linearly; otherwise in the
  // left column, which is the default of H.264 and VP9.
  bool centered_chroma = false;
};

// Converts pixels without scaling, at swscale's best accuracy, with chroma sited as H.264 and VP9 do by
// default.
SwsPtr new_converter(int width, int height, AVPixelFormat from, Color from_color, AVPixelFormat to,
                     Color to_color);

bool is_rgb(AVPixelFormat format);

// swscale stretches chroma by ceil(n/2) to n instead of 2: with an odd side it drifts by up to a pixel. So
// odd frames are converted inside pictures with even sides.
constexpr int even(int n) { return (n + 1) / 2 * 2; }

// Copies into an RGB24 picture that is at least that large; the last pixels are repeated.
void copy_rgb(RgbView from, AVFrame& to);
// Copies the top left corner; both have the same format.
void copy_planes(const AVFrame& from, AVFrame& to, int width, int height);

// Converts decoded frames of any format to RGB; keeps the converter between frames.
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
