#include "media/video/video_writer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "media/files.h"
#include "media/name_pattern.h"
#include "media/picture/png.h"
#include "media/picture/png_writer.h"
#include "media/sound/resampler.h"
#include "media/video/gif_writer.h"
#include "media/video/movie_writer.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

AVRational frame_rate(double fps) {
  // 23.976 and similar rates are n * 1000/1001.
  double ntsc = std::round(fps * 1.001);
  if (std::abs(fps - std::round(fps)) > 1e-6 && std::abs(fps - ntsc * 1000 / 1001) < 1e-3)
    return {int(ntsc) * 1000, 1001};
  return av_d2q(fps, 100'000);
}

void check_speed(const std::string& name, const std::string& speed) {
  if (speed.empty()) return;
  std::string known;
  for (const std::string_view each : kEncodeSpeeds) {
    if (each == speed) return;
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  fail(ErrorCode::invalid_argument, "{}: `speed`: expected one of {}, got '{}'", name, known, speed);
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
  if (path == "-") return VideoFormat::mp4;
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
                                               const VideoOptions& given) {
  av::quiet();
  VideoOptions options = given;
  if (path == "-") options.streamed = true;
  VideoFormat format = video_format(path);
  std::string name = path.string();
  require(width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
              int64_t(width) * height <= kMaxImagePixels,
          "{}: expected sides of 1 to {} and at most {} pixels, got {}x{}", name, kMaxImageSide,
          kMaxImagePixels, width, height);
  require(!options.streamed || format == VideoFormat::mp4,
          "{}: only mp4 is streamed: name a file .mp4, or - for standard output", name);
  require(options.threads >= 0 && options.threads <= 64, "{}: expected 1 to 64 threads or 0, got {}", name,
          options.threads);
  check_speed(name, options.speed);
  require(std::isfinite(options.fps) && options.fps >= 0.1 && options.fps <= 240,
          "{}: expected 0.1 to 240 frames a second, got {}", name, options.fps);
  require(options.sound.empty() || format == VideoFormat::mp4 || format == VideoFormat::webm,
          "{}: this format holds no sound; write .mp4 or .webm", name);
  require(
      options.sound.empty() || (options.sound_rate >= kMinSampleRate && options.sound_rate <= kMaxSampleRate),
      "{}: the rate of the sound: expected {} to {} Hz, got {}", name, kMinSampleRate, kMaxSampleRate,
      options.sound_rate);
  for (const float v : options.sound)
    require(std::isfinite(v), "{}: a sample of the sound is not a finite number", name);
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
  return std::make_unique<MovieWriter>(path, width, height, options, rate, format);
}

void VideoWriter::check_open(const char* what) const {
  require(state_ == State::open, "{}: cannot {}: the file is {}", path_.string(), what,
          state_ == State::finished ? "finished" : "given up after an error");
}

void VideoWriter::throw_if_cancelled() const { options_.cancel.throw_if_set(); }

std::unique_ptr<VideoWriter::Ready> VideoWriter::prepare(RgbView frame) {
  require(frame.rgb != nullptr && frame.width == width_ && frame.height == height_ &&
              frame.stride_bytes >= int64_t(frame.width) * 3,
          "{}: expected a frame of {}x{}, got {}x{} with rows of {} bytes", path_.string(), width_, height_,
          frame.width, frame.height, frame.stride_bytes);
  av::quiet();
  return prepare_frame(frame);
}

void VideoWriter::write(RgbView frame) {
  check_open("write a frame");
  write(prepare(frame));
}

void VideoWriter::write(std::unique_ptr<Ready> frame) {
  check_open("write a frame");
  throw_if_cancelled();
  av::quiet();
  state_ = State::failed;  // until it has succeeded
  write_frame(*frame);
  state_ = State::open;
  ++frames_;
}

void VideoWriter::finish() {
  check_open("finish");
  require(frames_ > 0, "{}: cannot finish: no frames were written", path_.string());
  throw_if_cancelled();
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
  part.write(encode_png(image, comment));
  part.publish();
  sync_folder(folder_of(path));
}

}  // namespace tachy
