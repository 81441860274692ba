// What all users of FFmpeg's libraries share: owners, quiet logging, error texts, and colour conversion.
//
// Only functions are used that FFmpeg 5.1, 6 and 7 share and have not deprecated. Private to src/media.
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

// Sends the libraries' own messages to TACHY_LOG=media, and keeps the errors of this thread for reason().
// Every entry point calls this, which forgets earlier messages.
void quiet();
// Returns the text for the code and the libraries' messages since quiet(): "No space left on device (libx264:
// …)".
std::string reason(int code);

// Options by name. Those that this version of FFmpeg does not know are ignored.
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

// How YCbCr numbers are read: an SWS_CS_* matrix, and whether they use all 256 steps.
struct Color {
  int matrix = SWS_CS_ITU709;
  bool full_range = false;
  // If true, chroma is between the pixels, as in JPEG and WebP, whose decoders enlarge it linearly. Otherwise
  // it is in the left column, which is the default of H.264 and VP9.
  bool centered_chroma = false;
};

// Converts pixels without scaling, with swscale's best accuracy and the chroma positions that are the default
// of H.264 and VP9.
SwsPtr new_converter(int width, int height, AVPixelFormat from, Color from_color, AVPixelFormat to,
                     Color to_color);

bool is_rgb(AVPixelFormat format);

// With an odd side n, swscale stretches chroma from ceil(n/2) to n, and not by 2, so it drifts by up to a
// pixel. So odd frames are converted inside pictures with even sides.
constexpr int even(int n) { return (n + 1) / 2 * 2; }

// Copies into an RGB24 picture that is at least as large, and repeats the last pixels.
void copy_rgb(RgbView from, AVFrame& to);
// Copies the top left corner. Both pictures have the same format.
void copy_planes(const AVFrame& from, AVFrame& to, int width, int height);

// Converts decoded frames of any format to RGB, and keeps the converter between frames.
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
