#include "media/video/video_reader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "media/files.h"
#include "media/metadata.h"
#include "media/picture/turn.h"
#include "media/video/picture_sequence.h"
#include "media/video/video_input.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

class MovieReader final : public VideoReader {
 public:
  MovieReader(const fs::path& path, const ReadVideoOptions& options)
      : name_(path.string()), options_(options) {
    input_ = av::open_input(path);
    av::find_streams(*input_, path, options_.max_pixels);
    const AVCodec* decoder = nullptr;
    int index = av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    check(index >= 0 && decoder != nullptr, ErrorCode::unsupported,
          "{}: this file has no video that can be decoded", name_);
    stream_ = input_->streams[index];
    codec_ = av::new_codec(decoder);
    int rc = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    check(rc >= 0, ErrorCode::corrupt, "{}: bad stream parameters: {}", name_, av::reason(rc));
    codec_->thread_count = std::clamp(options_.threads, 1, 64);
    codec_->max_pixels = options_.max_pixels;
    av::Dictionary only(av::Options{{"codec_whitelist", av::kVideos.decoders}});
    rc = avcodec_open2(codec_.get(), decoder, only.get());
    check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the decoder {}: {}", name_, decoder->name,
          av::reason(rc));
    frame_ = av::new_frame();
    packet_ = av::new_packet();
    describe(path);
  }

  bool read(RgbFrame& out) override {
    av::quiet();
    if (count_ >= options_.max_frames) return false;
    if (!decoded_ && !decode_next()) return false;
    decoded_ = false;
    check(frame_->decode_error_flags == 0 && !(frame_->flags & AV_FRAME_FLAG_CORRUPT), ErrorCode::corrupt,
          "{}: frame {} is damaged: {}", name_, count_, av::reason(AVERROR_INVALIDDATA));
    check(frame_->width == stored_width_ && frame_->height == stored_height_, ErrorCode::unsupported,
          "{}: frame {} is {}x{}, but those before it are {}x{}", name_, count_, frame_->width,
          frame_->height, stored_width_, stored_height_);
    watch_times();
    out = turn_upright(to_rgb_.convert(*frame_, false), orientation_);
    av_frame_unref(frame_.get());
    ++count_;
    return true;
  }

 private:
  // Returns false at the end.
  bool decode_next() {
    for (;;) {
      const int rc = avcodec_receive_frame(codec_.get(), frame_.get());
      if (rc == AVERROR_EOF) return false;
      check(rc >= 0 || rc == AVERROR(EAGAIN), ErrorCode::corrupt, "{}: cannot decode frame {}: {}", name_,
            count_, av::reason(rc));
      if (rc >= 0) return true;
      feed();
    }
  }

  // As in ffmpeg, the pictures' own orientation (H.264 and HEVC can have one) has precedence over the
  // container's.
  int find_orientation(const fs::path& path) {
    decoded_ = decode_next();
    const AVFrameSideData* own =
        decoded_ ? av_frame_get_side_data(frame_.get(), AV_FRAME_DATA_DISPLAYMATRIX) : nullptr;
    if (own != nullptr) return av::orientation_in({own->data, own->size});
    return av::orientation_of(*input_, *stream_, path);
  }

  // Returns the container's number of frames. It includes those that an edit list omits; then only reading
  // tells the number.
  int64_t frames_told() const {
    const int64_t told = std::max<int64_t>(0, stream_->nb_frames);
    const double shown =
        stream_->duration > 0 ? double(stream_->duration) * av_q2d(stream_->time_base) * info_.fps : 0;
    return shown > 0 && std::abs(shown - double(told)) > 1 ? 0 : told;
  }

  void feed() {
    const int got = av::next_packet(*input_, *stream_, *packet_);
    if (got == AVERROR_EOF) {
      avcodec_send_packet(codec_.get(), nullptr);
      return;
    }
    check(got >= 0, ErrorCode::corrupt, "{}: cannot read beyond frame {} (truncated?): {}", name_, count_,
          av::reason(got));
    check(!(packet_->flags & AV_PKT_FLAG_CORRUPT), ErrorCode::corrupt, "{}: data of frame {} is cut short",
          name_, count_);
    const int rc = avcodec_send_packet(codec_.get(), packet_.get());
    av_packet_unref(packet_.get());
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode near frame {}: {}", name_, count_, av::reason(rc));
  }

  void describe(const fs::path& path) {
    orientation_ = find_orientation(path);
    tell_what_is_left_out();
    info_.width = stored_width_ = codec_->width;
    info_.height = stored_height_ = codec_->height;
    if (turns_sideways(orientation_)) std::swap(info_.width, info_.height);
    check(info_.width >= 1 && info_.height >= 1 && info_.width <= kMaxImageSide &&
              info_.height <= kMaxImageSide && int64_t(info_.width) * info_.height <= options_.max_pixels,
          ErrorCode::corrupt, "{}: frames of {}x{}: expected sides of 1 to {} and at most {} pixels", name_,
          info_.width, info_.height, kMaxImageSide, options_.max_pixels);
    AVRational rate = stream_->avg_frame_rate.num > 0 ? stream_->avg_frame_rate : stream_->r_frame_rate;
    info_.fps = rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
    info_.frames = frames_told();
    info_.codec = avcodec_get_name(codec_->codec_id);
    const char* format = av_get_pix_fmt_name(codec_->pix_fmt);
    info_.pixel_format = format != nullptr ? format : "unknown";
    const char* space = av_color_space_name(codec_->colorspace);
    info_.color_space = space != nullptr ? space : "unknown";
    info_.comment = info_.codec == "gif" ? read_comment(path) : av::comment_of(*input_);
  }

  // Warns of things that a player would do and this reader does not, so that the result is no surprise.
  void tell_what_is_left_out() const {
    if (orientation_ == 0)
      warn(
          "{}: it says that its pictures are turned by an angle that is not a multiple of 90 degrees; they "
          "are read as they are stored",
          name_);
    const AVColorTransferCharacteristic curve = stream_->codecpar->color_trc;
    if (curve == AVCOL_TRC_SMPTE2084 || curve == AVCOL_TRC_ARIB_STD_B67)
      warn("{}: an HDR video ({}); its values are read as they are, without tone mapping, and look pale",
           name_, curve == AVCOL_TRC_SMPTE2084 ? "PQ" : "HLG");
    const AVRational shape = stream_->sample_aspect_ratio;
    if (shape.num > 0 && shape.den > 0 && shape.num != shape.den)
      warn("{}: its pixels are not square ({}:{}); they are read as if they were", name_, shape.num,
           shape.den);
  }

  // Frames are read one after another, however long each is shown.
  void watch_times() {
    const int64_t at = frame_->best_effort_timestamp;
    if (at != AV_NOPTS_VALUE && last_time_ != AV_NOPTS_VALUE && at > last_time_) {
      const int64_t step = at - last_time_;
      shortest_ = shortest_ == 0 ? step : std::min(shortest_, step), longest_ = std::max(longest_, step);
      // Containers that count milliseconds round all times.
      if (longest_ > shortest_ + shortest_ / 2 && longest_ - shortest_ > 1)
        warn("{}: its frames are shown for unequal times; they are read one after another", name_);
    }
    last_time_ = at;
  }

  std::string name_;
  ReadVideoOptions options_;
  av::InputPtr input_;
  AVStream* stream_ = nullptr;
  av::CodecPtr codec_;
  av::FramePtr frame_;
  av::PacketPtr packet_;
  av::ToRgb to_rgb_;
  int stored_width_ = 0, stored_height_ = 0;  // as stored, before turning
  int orientation_ = 1;                       // as in EXIF
  int64_t count_ = 0;
  bool decoded_ = false;                                             // frame_ holds the next frame
  int64_t last_time_ = AV_NOPTS_VALUE, shortest_ = 0, longest_ = 0;  // in the stream's time base
};

}  // namespace

std::unique_ptr<VideoReader> VideoReader::open(const fs::path& path, const ReadVideoOptions& options) {
  av::quiet();
  if (auto pictures = open_pictures(path, options)) return pictures;
  return std::make_unique<MovieReader>(path, options);
}

std::vector<fs::path> files_of_video(const fs::path& path) {
  std::vector<fs::path> pictures = picture_files(path, ReadVideoOptions().max_frames);
  return pictures.empty() ? std::vector<fs::path>{path} : pictures;
}

std::vector<RgbFrame> read_video(const fs::path& path, const ReadVideoOptions& options, VideoInfo* info) {
  auto reader = VideoReader::open(path, options);
  if (info != nullptr) *info = reader->info();
  int64_t frame_bytes = int64_t(reader->info().width) * reader->info().height * 3;
  std::vector<RgbFrame> frames;
  RgbFrame frame;
  while (reader->read(frame)) {
    check(frame_bytes * int64_t(frames.size() + 1) <= options.max_bytes, ErrorCode::out_of_memory,
          "{}: more than {} frames of {}x{} would take over {} bytes; read fewer (max_frames)", path.string(),
          frames.size(), reader->info().width, reader->info().height, options.max_bytes);
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace tachy
