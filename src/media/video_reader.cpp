#include "media/video_reader.h"

#include <algorithm>

#include "base/error.h"
#include "media/files.h"
#include "media/image_reader.h"
#include "media/metadata.h"
#include "media/name_pattern.h"
#include "media/video_input.h"

namespace tachy {
namespace av {

const Allowed kVideos = {
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif",
    "h264,hevc,vp8,vp9,libvpx,libvpx-vp9,av1,libdav1d,libaom-av1,mpeg4,mjpeg,png,gif,prores,ffv1",
    "a video (mp4, mov, mkv, webm, avi or gif)"};

InputPtr open_input(const std::filesystem::path& path, const Allowed& allowed) {
  check_readable_file(path);
  AVFormatContext* context = nullptr;
  Dictionary options({{"protocol_whitelist", "file"},
                      {"format_whitelist", allowed.containers},
                      {"codec_whitelist", allowed.decoders},
                      {"max_streams", "16"}});
  int rc = avformat_open_input(&context, ("file:" + path.string()).c_str(), nullptr, options.get());
  if (rc == AVERROR(EACCES) || rc == AVERROR(EIO) || rc == AVERROR(EMFILE))
    fail(ErrorCode::io, "{}: cannot read: {}", path.string(), reason(rc));
  check(rc >= 0, ErrorCode::corrupt, "{}: expected {}, or it is damaged: {}", path.string(), allowed.what,
        reason(rc));
  return InputPtr(context);
}

bool next_packet(AVFormatContext& input, const AVStream& stream, AVPacket& packet, const std::string& name,
                 const std::string& place) {
  for (;;) {
    const int rc = av_read_frame(&input, &packet);
    if (rc == AVERROR_EOF) return false;
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot read beyond {} (truncated?): {}", name, place, reason(rc));
    if (packet.stream_index == stream.index) return true;
    av_packet_unref(&packet);
  }
}

std::string comment_of(const AVFormatContext& input) {
  const AVDictionaryEntry* entry = av_dict_get(input.metadata, "comment", nullptr, 0);
  return entry != nullptr ? entry->value : "";
}

}  // namespace av

namespace fs = std::filesystem;
namespace {

class MovieReader final : public VideoReader {
 public:
  MovieReader(const fs::path& path, const ReadVideoOptions& options)
      : name_(path.string()), options_(options) {
    input_ = av::open_input(path);
    find_streams();
    const AVCodec* decoder = nullptr;
    int index = av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    check(index >= 0 && decoder != nullptr, ErrorCode::unsupported,
          "{}: no video in this file that can be decoded", name_);
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
    for (;;) {
      int rc = avcodec_receive_frame(codec_.get(), frame_.get());
      if (rc == AVERROR_EOF) return false;
      if (rc == AVERROR(EAGAIN)) {
        feed();
        continue;
      }
      check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode frame {}: {}", name_, count_, av::reason(rc));
      break;
    }
    check(frame_->decode_error_flags == 0 && !(frame_->flags & AV_FRAME_FLAG_CORRUPT), ErrorCode::corrupt,
          "{}: frame {} is damaged: {}", name_, count_, av::reason(AVERROR_INVALIDDATA));
    check(frame_->width == info_.width && frame_->height == info_.height, ErrorCode::unsupported,
          "{}: frame {} is {}x{}, those before it {}x{}", name_, count_, frame_->width, frame_->height,
          info_.width, info_.height);
    out = to_rgb_.convert(*frame_, false);
    av_frame_unref(frame_.get());
    ++count_;
    return true;
  }

 private:
  void find_streams() {
    // The analysis decodes too, so it gets the same limits.
    std::vector<AVDictionary*> options(input_->nb_streams, nullptr);
    for (AVDictionary*& o : options) {
      av_dict_set_int(&o, "max_pixels", options_.max_pixels, 0);
      av_dict_set(&o, "threads", "1", 0);
    }
    int rc = avformat_find_stream_info(input_.get(), options.empty() ? nullptr : options.data());
    for (AVDictionary*& o : options) av_dict_free(&o);
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot find the streams: {}", name_, av::reason(rc));
  }

  void feed() {
    if (!av::next_packet(*input_, *stream_, *packet_, name_, fmt::format("frame {}", count_))) {
      avcodec_send_packet(codec_.get(), nullptr);
      return;
    }
    check(!(packet_->flags & AV_PKT_FLAG_CORRUPT), ErrorCode::corrupt, "{}: data of frame {} is cut short",
          name_, count_);
    const int rc = avcodec_send_packet(codec_.get(), packet_.get());
    av_packet_unref(packet_.get());
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode near frame {}: {}", name_, count_, av::reason(rc));
  }

  void describe(const fs::path& path) {
    info_.width = codec_->width;
    info_.height = codec_->height;
    check(info_.width >= 1 && info_.height >= 1 && info_.width <= kMaxImageSide &&
              info_.height <= kMaxImageSide && int64_t(info_.width) * info_.height <= options_.max_pixels,
          ErrorCode::corrupt, "{}: frames of {}x{}: expected sides of 1 to {} and at most {} pixels", name_,
          info_.width, info_.height, kMaxImageSide, options_.max_pixels);
    AVRational rate = stream_->avg_frame_rate.num > 0 ? stream_->avg_frame_rate : stream_->r_frame_rate;
    info_.fps = rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
    info_.frames = std::max<int64_t>(0, stream_->nb_frames);
    info_.codec = avcodec_get_name(codec_->codec_id);
    const char* format = av_get_pix_fmt_name(codec_->pix_fmt);
    info_.pixel_format = format != nullptr ? format : "unknown";
    const char* space = av_color_space_name(codec_->colorspace);
    info_.color_space = space != nullptr ? space : "unknown";
    info_.comment = info_.codec == "gif" ? read_comment(path) : av::comment_of(*input_);
  }

  std::string name_;
  ReadVideoOptions options_;
  av::InputPtr input_;
  AVStream* stream_ = nullptr;
  av::CodecPtr codec_;
  av::FramePtr frame_;
  av::PacketPtr packet_;
  av::ToRgb to_rgb_;
  int64_t count_ = 0;
};

class PictureReader final : public VideoReader {
 public:
  PictureReader(std::vector<fs::path> files, const ReadVideoOptions& options)
      : files_(std::move(files)), max_frames_(options.max_frames) {
    first_ = read_image(files_[0]);
    info_.width = first_.width;
    info_.height = first_.height;
    check(int64_t(first_.width) * first_.height <= options.max_pixels, ErrorCode::corrupt,
          "{}: {}x{} is more than {} pixels", files_[0].string(), first_.width, first_.height,
          options.max_pixels);
    info_.frames = int64_t(files_.size());
    info_.codec = "pictures";
    info_.pixel_format = "rgb24";
    info_.color_space = "gbr";
    if (files_[0].extension() == ".png") info_.comment = read_comment(files_[0]);
  }
  bool read(RgbFrame& out) override {
    if (next_ >= files_.size() || int64_t(next_) >= max_frames_) return false;
    out = next_ == 0 ? std::move(first_) : read_image(files_[next_]);
    check(out.width == info_.width && out.height == info_.height, ErrorCode::unsupported,
          "{}: picture of {}x{}, those before it {}x{}", files_[next_].string(), out.width, out.height,
          info_.width, info_.height);
    ++next_;
    return true;
  }

 private:
  std::vector<fs::path> files_;
  RgbFrame first_;
  int64_t max_frames_;
  size_t next_ = 0;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".webp";
}

std::vector<fs::path> pictures_of(const fs::path& path, int64_t max_frames) {
  std::vector<fs::path> files;
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    for (const auto& entry : fs::directory_iterator(path, ec))
      if (is_picture(entry.path()) && entry.path().filename().string()[0] != '.')
        files.push_back(entry.path());
    check(!ec, ErrorCode::io, "{}: cannot list the folder: {}", path.string(), ec.message());
    std::sort(files.begin(), files.end());
    check(!files.empty(), ErrorCode::not_found, "{}: no pictures in this folder", path.string());
  } else if (auto pattern = fs::exists(path, ec) ? std::nullopt : parse_name_pattern(path)) {
    // Ours count from 0, others' from 1.
    int64_t first = fs::exists(pattern->name(0), ec) ? 0 : 1;
    for (int64_t i = first; i - first < max_frames && fs::exists(pattern->name(i), ec); ++i)
      files.push_back(pattern->name(i));
    check(!files.empty(), ErrorCode::not_found, "{}: no picture {}", path.string(),
          pattern->name(0).string());
  } else if (is_picture(path)) {
    check_readable_file(path);
    files.push_back(path);
  }
  return files;
}

}  // namespace

std::unique_ptr<VideoReader> VideoReader::open(const fs::path& path, const ReadVideoOptions& options) {
  av::quiet();
  std::vector<fs::path> pictures = pictures_of(path, options.max_frames);
  if (!pictures.empty()) return std::make_unique<PictureReader>(std::move(pictures), options);
  return std::make_unique<MovieReader>(path, options);
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
