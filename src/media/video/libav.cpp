#include "media/video/libav.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "base/error.h"
#include "base/log.h"

namespace tachy::av {
namespace {

constexpr size_t kMaxKept = 500;
thread_local std::string t_messages;

void keep_message(void* object, int level, const char* format, va_list args) {
  if (level > AV_LOG_WARNING) return;
  char line[512];
  int prefix = 0;
  av_log_format_line2(object, level, format, args, line, sizeof line, &prefix);
  std::string text(line);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  // In "[libx264 @ 0x55…] message", the address is useless and differs between runs.
  if (size_t at = text.find(" @ 0x"), end = text.find("] "); at != text.npos && end != text.npos && at < end)
    text = text.substr(1, at - 1) + ": " + text.substr(end + 2);
  if (text.empty()) return;
  if (log_enabled("media")) log_line("media", text);
  if (level > AV_LOG_ERROR || t_messages.size() + text.size() > kMaxKept) return;
  if (t_messages.find(text) != t_messages.npos) return;
  if (!t_messages.empty()) t_messages += "; ";
  t_messages += text;
}

template <class T>
T* allocated(T* p) {
  check(p != nullptr, ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
  return p;
}

bool is_gray(const AVPixFmtDescriptor& d) {
  return d.nb_components - !!(d.flags & AV_PIX_FMT_FLAG_ALPHA) == 1;
}

}  // namespace

bool is_rgb(AVPixelFormat format) {
  const AVPixFmtDescriptor* d = av_pix_fmt_desc_get(format);
  return d != nullptr && (d->flags & AV_PIX_FMT_FLAG_RGB) != 0;
}

FramePtr new_frame() { return FramePtr(allocated(av_frame_alloc())); }
PacketPtr new_packet() { return PacketPtr(allocated(av_packet_alloc())); }
CodecPtr new_codec(const AVCodec* codec) { return CodecPtr(allocated(avcodec_alloc_context3(codec))); }

FramePtr new_picture(AVPixelFormat format, int width, int height) {
  FramePtr frame = new_frame();
  frame->format = format;
  frame->width = width;
  frame->height = height;
  int rc = av_frame_get_buffer(frame.get(), 0);
  check(rc >= 0, ErrorCode::out_of_memory, "media: no memory for a picture of {}x{}", width, height);
  return frame;
}

void quiet() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_callback(keep_message); });
  t_messages.clear();
}

std::string reason(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = "unknown error";
  av_strerror(code, text, sizeof text);
  std::string out = text;
  if (!t_messages.empty()) out += " (" + t_messages + ")";
  t_messages.clear();
  return out;
}

Dictionary::Dictionary(const Options& options) {
  for (auto& [key, value] : options)
    check(av_dict_set(&dict_, key.c_str(), value.c_str(), 0) >= 0, ErrorCode::out_of_memory,
          "media: out of memory in FFmpeg");
}

SwsPtr new_converter(int width, int height, AVPixelFormat from, Color from_color, AVPixelFormat to,
                     Color to_color) {
  SwsPtr sws(allocated(sws_alloc_context()));
  auto set = [&](const char* name, int64_t value) { av_opt_set_int(sws.get(), name, value, 0); };
  set("srcw", width), set("srch", height), set("src_format", from);
  set("dstw", width), set("dsth", height), set("dst_format", to);
  set("sws_flags", (from_color.centered_chroma ? SWS_BILINEAR : SWS_BICUBIC) | SWS_ACCURATE_RND |
                       SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT);
  // Positions in 1/256 luma pixels. Chroma is in the left column, half way between two rows (in JPEG, in the
  // middle).
  auto site = [&](const char* h, const char* v, AVPixelFormat format, bool centered) {
    const AVPixFmtDescriptor* d = av_pix_fmt_desc_get(format);
    if (d == nullptr || d->flags & AV_PIX_FMT_FLAG_RGB) return;
    if (d->log2_chroma_w) set(h, centered ? 128 : 0);
    if (d->log2_chroma_h) set(v, 128);
  };
  site("src_h_chr_pos", "src_v_chr_pos", from, from_color.centered_chroma);
  site("dst_h_chr_pos", "dst_v_chr_pos", to, to_color.centered_chroma);
  int rc = sws_init_context(sws.get(), nullptr, nullptr);
  const char* name = av_get_pix_fmt_name(from);
  check(rc >= 0, ErrorCode::unsupported, "media: cannot convert pixels from {}: {}", name ? name : "?",
        reason(rc));
  sws_setColorspaceDetails(sws.get(), sws_getCoefficients(from_color.matrix), from_color.full_range,
                           sws_getCoefficients(to_color.matrix), to_color.full_range, 0, 1 << 16, 1 << 16);
  return sws;
}

void copy_rgb(RgbView from, AVFrame& to) {
  for (int y = 0; y < to.height; ++y) {
    uint8_t* row = to.data[0] + int64_t(y) * to.linesize[0];
    std::memcpy(row, from.row(std::min(y, from.height - 1)), size_t(from.width) * 3);
    for (int x = from.width; x < to.width; ++x) std::memcpy(row + 3 * x, row + 3 * (from.width - 1), 3);
  }
}

void copy_planes(const AVFrame& from, AVFrame& to, int width, int height) {
  const uint8_t* planes[4] = {from.data[0], from.data[1], from.data[2], from.data[3]};
  av_image_copy(to.data, to.linesize, planes, from.linesize, AVPixelFormat(to.format), width, height);
}

RgbFrame ToRgb::convert(const AVFrame& frame, bool still_image) {
  auto format = AVPixelFormat(frame.format);
  Color color{SWS_CS_ITU709, frame.color_range == AVCOL_RANGE_JPEG, still_image};
  // The J formats have the same layouts and the range in their name; swscale warns about them.
  if (format == AV_PIX_FMT_YUVJ420P) format = AV_PIX_FMT_YUV420P, color.full_range = true;
  if (format == AV_PIX_FMT_YUVJ422P) format = AV_PIX_FMT_YUV422P, color.full_range = true;
  if (format == AV_PIX_FMT_YUVJ444P) format = AV_PIX_FMT_YUV444P, color.full_range = true;
  if (format == AV_PIX_FMT_YUVJ440P) format = AV_PIX_FMT_YUV440P, color.full_range = true;
  const AVPixFmtDescriptor* d = av_pix_fmt_desc_get(format);
  check(d != nullptr, ErrorCode::unsupported, "media: unknown pixel format {}", int(format));
  if (is_gray(*d)) color.full_range = frame.color_range != AVCOL_RANGE_MPEG;
  switch (frame.colorspace) {
    case AVCOL_SPC_BT709:
      break;
    case AVCOL_SPC_SMPTE170M:
    case AVCOL_SPC_BT470BG:
      color.matrix = SWS_CS_ITU601;
      break;
    case AVCOL_SPC_BT2020_NCL:
      color.matrix = SWS_CS_BT2020;
      break;
    // Without a tag, pictures and old video are taken as BT.601, and HD video as BT.709.
    default:
      color.matrix = still_image || frame.height < 720 ? SWS_CS_ITU601 : SWS_CS_ITU709;
  }
  bool pad = (d->log2_chroma_w && frame.width % 2) || (d->log2_chroma_h && frame.height % 2);
  int width = pad ? even(frame.width) : frame.width, height = pad ? even(frame.height) : frame.height;
  bool same = converter_ && width_ == width && height_ == height && format_ == format &&
              color_.matrix == color.matrix && color_.full_range == color.full_range &&
              color_.centered_chroma == color.centered_chroma;
  if (!same) {
    // swscale rounds a linear chroma filter to halves when it converts to RGB, but not when it converts to
    // planes.
    bool enlarge = still_image && (d->log2_chroma_w || d->log2_chroma_h);
    enlarge_ = enlarge ? new_converter(width, height, format, color, AV_PIX_FMT_YUV444P, color) : nullptr;
    full_ = enlarge ? new_picture(AV_PIX_FMT_YUV444P, width, height) : nullptr;
    converter_ = new_converter(width, height, enlarge ? AV_PIX_FMT_YUV444P : format, color, AV_PIX_FMT_RGB24,
                               {SWS_CS_ITU709, true});
    rgb_ = new_picture(AV_PIX_FMT_RGB24, width, height);
    padded_ = pad ? new_picture(format, width, height) : nullptr;
    if (pad)  // so that the edge, which is cut off again, does not depend on old memory
      for (int i = 0; i < AV_NUM_DATA_POINTERS && padded_->buf[i]; ++i)
        std::memset(padded_->buf[i]->data, 0, padded_->buf[i]->size);
    width_ = width, height_ = height, format_ = format, color_ = color;
  }
  if (pad) copy_planes(frame, *padded_, frame.width, frame.height);
  const AVFrame* from = pad ? padded_.get() : &frame;
  if (enlarge_) {
    sws_scale(enlarge_.get(), from->data, from->linesize, 0, height, full_->data, full_->linesize);
    from = full_.get();
  }
  // swscale may write whole vectors, so it writes into padded memory, which is copied afterwards.
  int rc = sws_scale(converter_.get(), from->data, from->linesize, 0, height, rgb_->data, rgb_->linesize);
  check(rc == height, ErrorCode::internal, "media: converting a frame gave {} of {} rows", rc, height);
  RgbFrame out(frame.width, frame.height);
  for (int y = 0; y < out.height; ++y)
    std::memcpy(out.row(y), rgb_->data[0] + int64_t(y) * rgb_->linesize[0], size_t(out.width) * 3);
  return out;
}

}  // namespace tachy::av
