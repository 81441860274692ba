#include "media/video/movie_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/log.h"

namespace tachy {
namespace {

std::string speed_of(const VideoOptions& options) {
  return options.speed.empty() ? std::string(kEncodeSpeedDefault) : options.speed;
}

// The number of x264's frame threads. The file depends on it, so it follows from the picture alone. Each
// thread gets two rows of macroblocks: each searches as few rows of the previous frame for moved blocks as with two and a
// half.
int frame_threads(int height) { return std::clamp((height + 15) / 16 / 2, 1, 16); }

// x264 looks ahead in one thread, which shares each frame among these. By itself it takes few, and then they, and not the
// frame threads, decide how fast it is. Each gets four rows of macroblocks, the least that x264 allows.
int lookahead_threads(int height) { return std::clamp((height + 15) / 16 / 4, 1, 16); }

// With AVX-512, x264 (build 164) writes a different file for the same frames about once in thirty times (because of its
// rate control by macroblock trees). With AVX2 this never happens.
std::string x264_params(int height, const VideoOptions& options) {
  std::string params = fmt::format("lookahead-threads={}", lookahead_threads(height));
  // When the last frame has come, all frames ahead are yet to be encoded. The preset has 10, and two fewer change a file by
  // 0.4 % at most. Of smaller pictures it would be more, and they are encoded in no time.
  if (speed_of(options) == kEncodeSpeedDefault && height >= 480 && !options.streamed)
    params += ":rc-lookahead=8";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) params += ":asm=avx2";
#endif
  return params;
}

// `crf` 0 means that decoding returns the written frames exactly, so they stay RGB: converting to YCbCr would
// lose bits.
bool is_lossless(const VideoOptions& options) { return options.crf == 0; }

AVPixelFormat pixel_format(const VideoOptions& options, VideoFormat format) {
  if (!is_lossless(options)) return AV_PIX_FMT_YUV420P;
  return format == VideoFormat::mp4 ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_GBRP;
}

void tell_of_lossless(const std::filesystem::path& path, const char* how) {
  warn("{}: `crf` 0 is lossless: {}, which few players show; `crf` 1 looks the same and plays everywhere",
       path.string(), how);
}

av::OutputSetup mp4_setup(const std::filesystem::path& path, int height, const VideoOptions& options) {
  require(options.crf >= -1 && options.crf <= 51, "{}: `crf`: expected 0 to 51, got {}", path.string(),
          options.crf);
  av::OutputSetup setup;
  setup.muxer = "mp4";
  const bool lossless = is_lossless(options);
  if (lossless) tell_of_lossless(path, "H.264 of the profile High 4:4:4 Predictive, in RGB");
  setup.encoder = lossless ? "libx264rgb" : "libx264";
  setup.encoder_hint = "install one with libx264, or write .webm, .gif or .png";
  setup.threads = options.threads > 0 ? options.threads : frame_threads(height);
  setup.encoder_options = {{"preset", speed_of(options)},
                           {"profile", lossless ? "high444" : "high"},
                           {"crf", std::to_string(options.crf < 0 ? 16 : options.crf)},
                           // A key frame every two seconds allows players to seek.
                           {"g", std::to_string(std::clamp(int(std::lround(options.fps * 2)), 1, 250))},
                           {"x264-params", x264_params(height, options)}};
  setup.muxer_options = {{"movflags", "+faststart"}};
  if (!options.streamed) return setup;
  // Each piece has at most half a second and is complete, so players can begin while the file grows.
  setup.encoder_options.push_back({"tune", "zerolatency"});
  setup.muxer_options = {{"movflags", "+empty_moov+default_base_moof"}, {"frag_duration", "500000"}};
  return setup;
}

// VP9's tiles are columns of at least 256 pixels that are encoded independently. The file depends on the
// number of tiles, but not on the threads.
int tile_columns_log2(int width) { return width >= 1024 ? 2 : width >= 512 ? 1 : 0; }

// Returns libvpx's speed within the deadline "good", from 5 (fast) to 0.
std::string cpu_used(const std::string& speed) {
  constexpr int scale[] = {5, 5, 4, 3, 2, 1, 1, 0, 0};
  static_assert(std::size(scale) == std::size(kEncodeSpeeds));
  const auto at = std::find(std::begin(kEncodeSpeeds), std::end(kEncodeSpeeds), speed);
  return std::to_string(scale[at - std::begin(kEncodeSpeeds)]);
}

av::OutputSetup webm_setup(const std::filesystem::path& path, int width, const VideoOptions& options) {
  require(options.crf >= -1 && options.crf <= 63, "{}: `crf`: expected 0 to 63, got {}", path.string(),
          options.crf);
  av::OutputSetup setup;
  setup.muxer = "webm";
  setup.encoder = "libvpx-vp9";
  setup.encoder_hint = "install one with libvpx, or write .mp4, .gif or .png";
  if (is_lossless(options)) tell_of_lossless(path, "VP9 of profile 1, in RGB");
  const int columns = tile_columns_log2(width);
  setup.threads = options.threads > 0 ? options.threads : 1 << columns;
  setup.encoder_options = {{"crf", std::to_string(options.crf < 0 ? 24 : options.crf)},
                           {"b", "0"},
                           {"deadline", "good"},
                           {"cpu-used", cpu_used(speed_of(options))},
                           {"tile-columns", std::to_string(columns)},
                           {"row-mt", "0"}};
  if (is_lossless(options)) setup.encoder_options.push_back({"lossless", "1"});
  setup.muxer_options = {{"cues_to_front", "1"}};
  return setup;
}

av::OutputSetup setup_of(const std::filesystem::path& path, int width, int height,
                         const VideoOptions& options, AVRational rate, VideoFormat format) {
  const bool mp4 = format == VideoFormat::mp4;
  require(!mp4 || (width % 2 == 0 && height % 2 == 0),
          "{}: expected an even width and height (H.264 with 4:2:0 colour), got {}x{}; use an even size, "
          ".webm or .png",
          path.string(), width, height);
  av::OutputSetup setup = mp4 ? mp4_setup(path, height, options) : webm_setup(path, width, options);
  setup.path = path;
  setup.format = pixel_format(options, format);
  setup.width = width;
  setup.height = height;
  setup.rate = rate;
  setup.video_color = true;
  setup.comment = options.comment;
  setup.cancel = options.cancel;
  setup.streamed = options.streamed;
  setup.sound_encoder = mp4 ? "aac" : "libopus";
  setup.sound = options.sound;
  setup.sound_rate = options.sound_rate;
  return setup;
}

}  // namespace

MovieWriter::MovieWriter(std::filesystem::path path, int width, int height, VideoOptions options,
                         AVRational rate, VideoFormat format)
    : VideoWriter(path, width, height, options),
      output_(setup_of(path, width, height, options, rate, format)),
      converters_([w = av::even(width), h = av::even(height), to = pixel_format(options, format)] {
        return std::make_unique<Converter>(
            Converter{av::new_converter(w, h, AV_PIX_FMT_RGB24, {SWS_CS_ITU709, true}, to,
                                        {SWS_CS_ITU709, av::is_rgb(to)}),
                      av::new_picture(AV_PIX_FMT_RGB24, w, h)});
      }),
      pictures_([w = av::even(width), h = av::even(height), to = pixel_format(options, format)] {
        return av::new_picture(to, w, h);
      }) {}

size_t MovieWriter::Picture::bytes() const {
  size_t sum = 0;
  for (const AVBufferRef* buffer : picture->buf) sum += buffer != nullptr ? buffer->size : 0;
  return sum;
}

std::unique_ptr<VideoWriter::Ready> MovieWriter::prepare_frame(RgbView frame) {
  auto ready = std::make_unique<Picture>();
  ready->picture = pictures_.take();
  AVFrame& out = *ready->picture;
  // The encoder may still hold the storage of a returned picture.
  check(av_frame_make_writable(&out) >= 0, ErrorCode::out_of_memory, "media: no memory for a frame");
  auto converter = converters_.take();
  const AVFrame& rgb = *converter->rgb;
  av::copy_rgb(frame, *converter->rgb);
  const int rows =
      sws_scale(converter->from_rgb.get(), rgb.data, rgb.linesize, 0, rgb.height, out.data, out.linesize);
  check(rows == rgb.height, ErrorCode::internal, "{}: converting a frame gave {} of {} rows", path_.string(),
        rows, rgb.height);
  converters_.give(std::move(converter));
  out.width = width_, out.height = height_;  // without the column and the row that make odd sides even
  return ready;
}

void MovieWriter::write_frame(Ready& frame) {
  auto& picture = static_cast<Picture&>(frame);
  output_.send(*picture.picture, frames_);
  pictures_.give(std::move(picture.picture));
}

void MovieWriter::finish_file() {
  output_.close();
  output_.publish();
  if (path_ != "-") sync_folder(folder_of(path_));
}

}  // namespace tachy
