#include "media/video_writer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "media/files.h"
#include "media/gif_writer.h"
#include "media/libav_output.h"
#include "media/name_pattern.h"
#include "media/png.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

// mp4 and webm: frames go through the encoder as they come.
class MovieWriter final : public VideoWriter {
 public:
  MovieWriter(fs::path path, int width, int height, VideoOptions options, const av::OutputSetup& setup)
      : VideoWriter(std::move(path), width, height, std::move(options)),
        output_(setup),
        rgb_(av::new_picture(AV_PIX_FMT_RGB24, av::even(width), av::even(height))),
        yuv_(av::new_picture(AV_PIX_FMT_YUV420P, av::even(width), av::even(height))),
        to_yuv_(av::new_converter(av::even(width), av::even(height), AV_PIX_FMT_RGB24, {SWS_CS_ITU709, true},
                                  AV_PIX_FMT_YUV420P, {SWS_CS_ITU709, false})) {}

 protected:
  void write_frame(RgbView frame) override {
    av::copy_rgb(frame, *rgb_);
    int rc =
        sws_scale(to_yuv_.get(), rgb_->data, rgb_->linesize, 0, rgb_->height, yuv_->data, yuv_->linesize);
    check(rc == rgb_->height, ErrorCode::internal, "{}: converting a frame gave {} of {} rows",
          path_.string(), rc, rgb_->height);
    av::copy_planes(*yuv_, output_.picture(), width_, height_);
    output_.send(frames_);
  }
  void finish_file() override {
    output_.close();
    output_.part().publish();
    sync_folder(folder_of(path_));
  }

 private:
  av::Output output_;
  av::FramePtr rgb_, yuv_;
  av::SwsPtr to_yuv_;
};

class PngWriter final : public VideoWriter {
 public:
  // Without a pattern: one picture named `path`.
  PngWriter(fs::path path, int width, int height, VideoOptions options, std::optional<NamePattern> pattern)
      : VideoWriter(std::move(path), width, height, std::move(options)),
        pattern_(std::move(pattern)),
        encoder_(width, height) {
    if (pattern_ && pattern_->whole_folder) make_folder();
    // Fails now rather than after an hour of computing.
    PartFile probe(name_of(0));
  }
  ~PngWriter() override {
    parts_.clear();
    std::error_code ec;
    if (made_folder_ && !published_) fs::remove(pattern_->folder, ec);  // only if empty
  }

 protected:
  void write_frame(RgbView frame) override {
    require(pattern_ || frames_ == 0,
            "{}: this name holds one picture; for more write out_%04d.png or a folder/", path_.string());
    PartFile part(name_of(frames_));
    part.write(encoder_.encode(frame, options_.comment));
    part.seal();
    parts_.push_back(std::move(part));
  }
  void finish_file() override {
    published_ = true;
    for (PartFile& part : parts_) part.publish();
    sync_folder(folder_of(name_of(0)));
    std::error_code ec;
    if (pattern_ && fs::exists(name_of(frames_), ec))
      warn("{}: older pictures follow the {} just written", name_of(frames_).string(), frames_);
  }

 private:
  fs::path name_of(int64_t index) const { return pattern_ ? pattern_->name(index) : path_; }
  void make_folder() {
    std::error_code ec;
    made_folder_ = fs::create_directory(pattern_->folder, ec);
    check(!ec, ErrorCode::io, "{}: cannot make the folder: {}", pattern_->folder.string(), ec.message());
  }

  std::optional<NamePattern> pattern_;
  PngEncoder encoder_;
  std::vector<PartFile> parts_;
  bool made_folder_ = false, published_ = false;
};

AVRational frame_rate(double fps) {
  // 23.976 and its kin are n * 1000/1001.
  double ntsc = std::round(fps * 1.001);
  if (std::abs(fps - std::round(fps)) > 1e-6 && std::abs(fps - ntsc * 1000 / 1001) < 1e-3)
    return {int(ntsc) * 1000, 1001};
  return av_d2q(fps, 100'000);
}

av::OutputSetup mp4_setup(const fs::path& path, const VideoOptions& options) {
  require(options.crf <= 51, "{}: --crf: expected 0 to 51, got {}", path.string(), options.crf);
  av::OutputSetup setup;
  setup.muxer = "mp4";
  setup.encoder = "libx264";
  setup.encoder_hint = "install one with libx264, or write .webm, .gif or .png";
  setup.encoder_options = {{"preset", "medium"},
                           {"profile", "high"},
                           {"crf", std::to_string(options.crf < 0 ? 16 : options.crf)},
                           // A key frame every two seconds: players can jump.
                           {"g", std::to_string(std::clamp(int(std::lround(options.fps * 2)), 1, 250))}};
#if defined(__x86_64__)
  // On AVX-512 x264 (build 164) writes another file of the same frames about once in thirty times (its rate
  // control by macroblock trees; never with AVX2).
  if (__builtin_cpu_supports("avx512f")) setup.encoder_options.push_back({"x264-params", "asm=avx2"});
#endif
  setup.muxer_options = {{"movflags", "+faststart"}};
  return setup;
}

av::OutputSetup webm_setup(const fs::path& path, const VideoOptions& options) {
  require(options.crf <= 63, "{}: --crf: expected 0 to 63, got {}", path.string(), options.crf);
  av::OutputSetup setup;
  setup.muxer = "webm";
  setup.encoder = "libvpx-vp9";
  setup.encoder_hint = "install one with libvpx, or write .mp4, .gif or .png";
  setup.encoder_options = {{"crf", std::to_string(options.crf < 0 ? 24 : options.crf)},
                           {"b", "0"},
                           {"deadline", "good"},
                           {"cpu-used", "4"},
                           {"row-mt", options.threads > 1 ? "1" : "0"}};
  setup.muxer_options = {{"cues_to_front", "1"}};
  return setup;
}

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

VideoFormat video_format(const fs::path& path) {
  std::error_code ec;
  require(!path.empty(), "output: expected a file name, got an empty one");
  if (path.filename().empty() || fs::is_directory(path, ec)) return VideoFormat::png_sequence;
  std::string ending = lower_extension(path);
  if (ending == ".mp4") return VideoFormat::mp4;
  if (ending == ".webm") return VideoFormat::webm;
  if (ending == ".gif") return VideoFormat::gif;
  if (ending == ".png") return parse_name_pattern(path) ? VideoFormat::png_sequence : VideoFormat::png;
  fail(ErrorCode::unsupported,
       "{}: expected a name ending in .mp4, .webm, .gif, .png, _%04d.png or / (a folder of pictures), got "
       "'{}'",
       path.string(), ending);
}

std::unique_ptr<VideoWriter> VideoWriter::open(const fs::path& path, int width, int height,
                                               const VideoOptions& options) {
  av::quiet();
  VideoFormat format = video_format(path);
  std::string name = path.string();
  require(width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
              int64_t(width) * height <= kMaxImagePixels,
          "{}: expected sides of 1 to {} and at most {} pixels, got {}x{}", name, kMaxImageSide,
          kMaxImagePixels, width, height);
  require(options.threads >= 1 && options.threads <= 64, "{}: expected 1 to 64 threads, got {}", name,
          options.threads);
  require(std::isfinite(options.fps) && options.fps >= 0.1 && options.fps <= 240,
          "{}: expected 0.1 to 240 frames a second, got {}", name, options.fps);
  if (format == VideoFormat::png) {
    require(options.expected_frames <= 1,
            "{}: {} frames do not fit in one picture; write out_%04d.png or a folder/", name,
            options.expected_frames);
    return std::make_unique<PngWriter>(path, width, height, options, std::nullopt);
  }
  if (format == VideoFormat::png_sequence) {
    NamePattern pattern = name_pattern_of(path);
    return std::make_unique<PngWriter>(path, width, height, options, pattern);
  }
  AVRational rate = frame_rate(options.fps);
  if (format == VideoFormat::gif) {
    require(options.fps <= 50, "{}: browsers slow a GIF of more than 50 frames a second down to 10, got {}",
            name, options.fps);
    return std::make_unique<GifWriter>(path, width, height, options, rate);
  }
  bool mp4 = format == VideoFormat::mp4;
  require(!mp4 || (width % 2 == 0 && height % 2 == 0),
          "{}: expected an even width and height (H.264 with 4:2:0 colour), got {}x{}; use an even size, "
          ".webm or .png",
          name, width, height);
  av::OutputSetup setup = mp4 ? mp4_setup(path, options) : webm_setup(path, options);
  setup.path = path;
  setup.format = AV_PIX_FMT_YUV420P;
  setup.width = width;
  setup.height = height;
  setup.threads = options.threads;
  setup.rate = rate;
  setup.video_color = true;
  setup.comment = options.comment;
  return std::make_unique<MovieWriter>(path, width, height, options, setup);
}

void VideoWriter::write(RgbView frame) {
  require(state_ == State::open, "{}: cannot write a frame: the file is {}", path_.string(),
          state_ == State::finished ? "finished" : "given up after an error");
  require(frame.rgb != nullptr && frame.width == width_ && frame.height == height_ &&
              frame.stride_bytes >= int64_t(frame.width) * 3,
          "{}: expected a frame of {}x{}, got {}x{} with rows of {} bytes", path_.string(), width_, height_,
          frame.width, frame.height, frame.stride_bytes);
  av::quiet();
  state_ = State::failed;  // until it has gone well
  write_frame(frame);
  state_ = State::open;
  ++frames_;
}

void VideoWriter::finish() {
  require(state_ == State::open, "{}: cannot finish: the file is {}", path_.string(),
          state_ == State::finished ? "finished" : "given up after an error");
  require(frames_ > 0, "{}: cannot finish: no frames were written", path_.string());
  av::quiet();
  state_ = State::failed;
  finish_file();
  state_ = State::finished;
}

void write_png(const fs::path& path, RgbView image, const std::string& comment) {
  require(image.rgb != nullptr && image.width >= 1 && image.height >= 1 && image.width <= kMaxImageSide &&
              image.height <= kMaxImageSide,
          "{}: expected a picture with sides of 1 to {}, got {}x{}", path.string(), kMaxImageSide,
          image.width, image.height);
  PartFile part(path);
  part.write(PngEncoder(image.width, image.height).encode(image, comment));
  part.publish();
  sync_folder(folder_of(path));
}

}  // namespace tachy
