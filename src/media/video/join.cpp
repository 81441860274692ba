#include "media/video/join.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "media/sound/resampler.h"
#include "media/sound/sound_reader.h"
#include "media/video/background_writer.h"
#include "media/video/packet_file.h"
#include "media/video/video_input.h"
#include "media/video/video_reader.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr int kJoinedRate = 48000;  // the rate of the joined sound

// A part, open for reading its packets.
struct Part {
  fs::path path;
  av::InputPtr input;
  const AVStream* video = nullptr;
  bool sound = false, upright = true;
  int64_t frames = 0;           // all that it has
  int64_t first = 0, last = 0;  // those that are taken, once they have been counted
  AVRational rate{};

  explicit Part(const fs::path& file) : path(file) { rewind(); }
  int64_t taken() const { return last - first + 1; }
  bool whole() const { return taken() == frames; }
  void rewind() {
    input = av::open_input(path);
    av::find_streams(*input, path);
    const int index = av_find_best_stream(input.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    check(index >= 0, ErrorCode::unsupported, "{}: this file has no video", path.string());
    video = input->streams[index];
    sound = av_find_best_stream(input.get(), AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0) >= 0;
    upright = av::orientation_of(*input, *video, path) == 1;
    rate = video->avg_frame_rate.num > 0 ? video->avg_frame_rate : video->r_frame_rate;
    check(rate.num > 0 && rate.den > 0, ErrorCode::unsupported,
          "{}: it does not say how fast its frames follow", path.string());
  }
  const AVCodecParameters& codec() const { return *video->codecpar; }
};

// The facts about all packets of a part that copying needs.
struct Times {
  int64_t decoding = 0;  // when the first one is decoded, in frames since the first one shown
  bool even = true;      // each frame is shown for the same time, and none is missing
};

// Counts the frames of a part, and looks at their times.
Times look_through(Part& part, CancelFlag cancel) {
  Times out;
  const av::PacketPtr packet = av::new_packet();
  const auto in_frames = [&](int64_t time) {
    return static_cast<double>(time) * av_q2d(part.video->time_base) * av_q2d(part.rate);
  };
  double latest = 0;
  for (;; av_packet_unref(packet.get())) {
    cancel.throw_if_set();
    const int rc = av::next_packet(*part.input, *part.video, *packet);
    if (rc == AVERROR_EOF) break;
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot read: {}", part.path.string(), av::reason(rc));
    if (packet->pts == AV_NOPTS_VALUE || packet->dts == AV_NOPTS_VALUE ||
        (packet->flags & AV_PKT_FLAG_DISCARD)) {
      out.even = false;
    } else {
      const double shown = in_frames(packet->pts), decoded = in_frames(packet->dts);
      latest = std::max(latest, shown);
      out.even = out.even && std::abs(shown - std::round(shown)) < 0.1 && shown > -0.1;
      if (part.frames == 0) out.decoding = std::llround(decoded);
    }
    ++part.frames;
  }
  check(part.frames > 0, ErrorCode::corrupt, "{}: it has no frames", part.path.string());
  out.even = out.even && std::llround(latest) == part.frames - 1;
  part.rewind();
  return out;
}

bool encoded_alike(const Part& a, const Part& b) {
  const AVCodecParameters &x = a.codec(), &y = b.codec();
  return x.codec_id == y.codec_id && x.format == y.format && x.profile == y.profile && x.level == y.level &&
         x.extradata_size == y.extradata_size && av_cmp_q(a.video->time_base, b.video->time_base) == 0 &&
         (x.extradata_size == 0 || std::memcmp(x.extradata, y.extradata, size_t(x.extradata_size)) == 0);
}

void expect_alike(const Part& first, const Part& part) {
  const AVCodecParameters &a = first.codec(), &b = part.codec();
  require(a.width == b.width && a.height == b.height,
          "{}: it has {}x{} pixels, and {} has {}x{}; only videos of one "
          "size can be joined",
          part.path.string(), b.width, b.height, first.path.string(), a.width, a.height);
  require(std::abs(av_q2d(first.rate) - av_q2d(part.rate)) < 1e-3 * av_q2d(first.rate),
          "{}: it has {:.3f} frames a second, and {} has {:.3f}; only videos of one rate can be joined",
          part.path.string(), av_q2d(part.rate), first.path.string(), av_q2d(first.rate));
}

void take_frames(Part& part, const JoinPart& asked) {
  part.first = asked.first_frame;
  part.last = asked.last_frame < 0 ? part.frames - 1 : asked.last_frame;
  require(part.first >= 0 && part.first <= part.last && part.last < part.frames,
          "{}: it has {} frames, and those from {} to {} were asked for", part.path.string(), part.frames,
          asked.first_frame, part.last);
}

// Returns the sound of all parts, each as long as its pictures, or nothing if none of them has any.
std::vector<float> sound_of(const std::vector<Part>& parts, double fps, double most_seconds) {
  std::vector<float> out;
  if (std::none_of(parts.begin(), parts.end(), [](const Part& p) { return p.sound; })) return out;
  const auto samples_in = [fps](int64_t frames) {
    return static_cast<size_t>(std::llround(static_cast<double>(frames) / fps * kJoinedRate));
  };
  int64_t frames = 0;
  for (const Part& part : parts) {
    if (part.sound) {
      const Sound sound = read_sound(part.path, {.max_seconds = most_seconds});
      const std::vector<float> samples = resample(sound.samples, sound.rate, kJoinedRate);
      const size_t left_out = std::min(samples.size(), samples_in(part.first));
      out.insert(out.end(), samples.begin() + std::ptrdiff_t(left_out), samples.end());
    }
    frames += part.taken();
    out.resize(samples_in(frames));
  }
  return out;
}

// `decoding` is when the first packet is decoded, in frames. The others follow at equal times, so that the
// file's rate is that of its parts.
void copy_pictures(std::vector<Part>& parts, int64_t decoding, const fs::path& output,
                   std::span<const float> sound, const JoinOptions& options) {
  av::PacketFile file(output, options.comment, options.cancel);
  const int stream = file.add_like(*parts.front().video);
  file.begin(sound, kJoinedRate);
  const av::PacketPtr packet = av::new_packet();
  const AVRational unit = parts.front().video->time_base, frame = av_inv_q(parts.front().rate);
  int64_t before = 0;  // frames
  for (Part& part : parts) {
    for (int64_t i = 0; i < part.frames; ++i) {
      const int rc = av::next_packet(*part.input, *part.video, *packet);
      check(rc >= 0, ErrorCode::corrupt, "{}: cannot read: {}", part.path.string(), av::reason(rc));
      packet->pts += av_rescale_q(before, frame, unit);
      packet->dts = av_rescale_q(decoding + before + i, frame, unit);
      packet->duration = av_rescale_q(1, frame, unit);
      file.write(*packet, unit, stream);
    }
    before += part.frames;
  }
  file.finish();
}

void encode_pictures(const std::vector<Part>& parts, const fs::path& output, std::span<const float> sound,
                     const JoinOptions& options) {
  const VideoOptions how{.fps = av_q2d(parts.front().rate),
                         .comment = options.comment,
                         .cancel = options.cancel,
                         .sound = sound,
                         .sound_rate = kJoinedRate};
  std::optional<BackgroundWriter> writer;
  int width = 0, height = 0;
  for (const Part& part : parts) {
    const auto reader = VideoReader::open(part.path);
    RgbFrame frame;
    for (int64_t at = 0; at <= part.last && reader->read(frame); ++at) {
      options.cancel.throw_if_set();
      if (at < part.first) continue;
      if (!writer) {
        width = frame.width, height = frame.height;
        writer.emplace(VideoWriter::open(output, width, height, how), options.cancel);
      }
      require(frame.width == width && frame.height == height,
              "{}: its frames are turned, and those before it are not", part.path.string());
      writer->write(frame.view());
    }
  }
  writer->finish();
}

}  // namespace

JoinedVideo join_videos(std::span<const fs::path> paths, const fs::path& output, const JoinOptions& options) {
  std::vector<JoinPart> whole;
  for (const fs::path& path : paths) whole.push_back({path});
  return join_videos(whole, output, options);
}

JoinedVideo join_videos(std::span<const JoinPart> asked, const fs::path& output, const JoinOptions& options) {
  av::quiet();
  require(!asked.empty() && asked.size() <= 100, "expected 1 to 100 videos to join, got {}", asked.size());
  require(video_format(output) == VideoFormat::mp4, "{}: expected a name ending in .mp4", output.string());
  std::vector<Part> parts;
  JoinedVideo out{.copied = !options.encode_anew};
  int64_t decoding = 0;  // when the first packet of all is decoded: early enough for each part
  for (const JoinPart& one : asked) {
    Part& part = parts.emplace_back(one.path);
    const Part& first = parts.front();
    expect_alike(first, part);
    const Times times = look_through(part, options.cancel);
    take_frames(part, one);
    decoding = std::min(decoding, times.decoding);
    out.copied = out.copied && part.whole() && times.even && part.upright && encoded_alike(first, part) &&
                 part.codec().codec_id == AV_CODEC_ID_H264;
    out.frames += part.taken(), out.sound = out.sound || part.sound;
    out.seconds = static_cast<double>(out.frames) / av_q2d(first.rate);
    require(out.seconds <= options.most_seconds,
            "the videos have {:.0f} seconds together; at most {:.0f} can be joined", out.seconds,
            options.most_seconds);
  }
  const std::vector<float> sound = sound_of(parts, av_q2d(parts.front().rate), options.most_seconds);
  if (out.copied)
    copy_pictures(parts, decoding, output, sound, options);
  else
    encode_pictures(parts, output, sound, options);
  return out;
}

}  // namespace tachy
