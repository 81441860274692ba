// Videos that a request begins with: what they are, and the frames that a clip takes of them.
#include "request/footage.h"

#include <algorithm>
#include <array>

#include "api/clip_footage.h"
#include "api/reference_canvas.h"
#include "api/tachyscope.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/sha256.h"
#include "media/picture/image_reader.h"
#include "media/video/video_reader.h"

namespace tachy {
namespace {

constexpr double kMostBytes = 8.0 * (1 << 30);  // of a video's fitted frames

RgbFrame fitted(const RgbFrame& frame, const std::string& fit, int width, int height) {
  if (frame.width == width && frame.height == height) return frame;
  return fit == "crop" ? resize_crop(frame.view(), width, height) : resize(frame.view(), width, height);
}

// A video whose frames are asked for in rising order.
class Frames {
 public:
  Frames(const char* field, const Footage& footage, const StopFlags& stop)
      : field_(field),
        footage_(footage),
        stop_(stop),
        reader_(naming(fmt::format("`{}`", field), [&] { return VideoReader::open(footage.path); })) {}

  // Returns frame `index`. If the file ends before the number of frames that it stated, the last one is repeated.
  const RgbFrame& at(int64_t index) {
    while (next_ <= index) {
      stop_.throw_if_cancelled();
      RgbFrame frame;
      if (!naming(fmt::format("`{}`", field_), [&] { return reader_->read(frame); })) {
        check(next_ > 0, ErrorCode::corrupt, "`{}`: {}: it has no frames", field_, called(footage_));
        warn("`{}`: {} ends after {} of the {} frames that it states; the last one is repeated", field_,
             called(footage_), next_, footage_.frames);
        next_ = index + 1;
        break;
      }
      check(frame.width > 0 && frame.height > 0, ErrorCode::corrupt, "`{}`: {}: frame {} is empty", field_,
            called(footage_), next_);
      frame_ = std::move(frame);
      ++next_;
    }
    return frame_;
  }

 private:
  const char* field_;
  const Footage& footage_;
  const StopFlags& stop_;
  std::unique_ptr<VideoReader> reader_;
  RgbFrame frame_;
  int64_t next_ = 0;
};

struct Fit {
  std::string how;  // image_fit
  double fps = 0;   // of the clip
  int64_t count = 0;
  int width = 0, height = 0;
};

void say_what_is_done(const char* field, const Footage& f, const Fit& fit) {
  std::string done;
  if (f.width != fit.width || f.height != fit.height)
    done += fmt::format(", {}x{} {} to {}x{}", f.width, f.height, fit.how == "crop" ? "cropped" : "stretched",
                        fit.width, fit.height);
  if (f.fps > 0 && frames_at(f, fit.fps) != f.frames)
    done += fmt::format(", {:.4g} frames a second to {:.4g}", f.fps, fit.fps);
  if (frames_at(f, fit.fps) > fit.count) done += fmt::format(", cut to the first {} frames", fit.count);
  if (!done.empty()) say_line(fmt::format("`{}`: {}{}", field, called(f), done));
}

// Throws unsupported if the fitted frames would be too many, with the number that could be read.
void check_bytes(const char* field, const Fit& fit) {
  const double bytes = static_cast<double>(fit.width) * fit.height * 3;
  check(static_cast<double>(fit.count) * bytes <= kMostBytes, ErrorCode::unsupported,
        "`{}`: {} frames of {}x{} take more than {} GiB; at most {} `frames` of this size can be given",
        field, fit.count, fit.width, fit.height, 8, static_cast<int64_t>(kMostBytes / bytes));
}

// Calls take(frame, i) for each frame of the clip, in the clip's size. A still picture serves for all of them.
template <class Take>
void for_frames(const char* field, const Footage& f, const Fit& fit, const StopFlags& stop,
                const Take& take) {
  Frames frames(field, f, stop);
  RgbFrame now;
  int64_t last = -1;
  for (int64_t i = 0; i < fit.count; ++i) {
    const int64_t index = frame_at(f, fit.fps, i);
    if (index != last) now = fitted(frames.at(index), fit.how, fit.width, fit.height), last = index;
    take(now, i);
  }
}

std::vector<uint8_t> pixels(const char* field, const Footage& f, const Fit& fit, const StopFlags& stop) {
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(fit.count) * static_cast<size_t>(fit.width) *
              static_cast<size_t>(fit.height) * 3);
  for_frames(field, f, fit, stop, [&](const RgbFrame& frame, int64_t) {
    out.insert(out.end(), frame.rgb.begin(), frame.rgb.end());
  });
  return out;
}

// Throws unless the frame is mostly black and white, without colours. Soft edges and the losses of a codec may be
// there.
void check_is_mask(const Footage& f, const RgbFrame& frame, int64_t index) {
  size_t coloured = 0, between = 0;
  for (size_t i = 0; i < frame.rgb.size(); i += 3) {
    const auto [low, high] = std::minmax({frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]});
    coloured += high - low > 48;
    between += low >= 64 && low < 192;
  }
  const size_t all = frame.rgb.size() / 3;
  require(10 * coloured <= all && 2 * between <= all,
          "`mask_video`: {}: frame {} is not a mask: {:.0f} % of its pixels have a colour, {:.0f} % are "
          "gray; a mask is "
          "white where the clip is made anew, and black elsewhere",
          called(f), index, 100.0 * static_cast<double>(coloured) / static_cast<double>(all),
          100.0 * static_cast<double>(between) / static_cast<double>(all));
}

std::vector<uint8_t> mask_values(const Footage& f, const Fit& fit, const StopFlags& stop) {
  std::vector<uint8_t> out;
  for_frames("mask_video", f, fit, stop, [&](const RgbFrame& frame, int64_t i) {
    check_is_mask(f, frame, i);
    for (size_t p = 0; p < frame.rgb.size(); p += 3) out.push_back(frame.rgb[p]);
  });
  return out;
}

// The clip's frames, and the part of them that a control video gives.
Fit clip_of(const VideoRequest& q) { return {q.image_fit, *q.fps, *q.frames, *q.width, *q.height}; }
Fit place_of(const Resolved& r) {
  Fit out = clip_of(r.request);
  out.count = r.control.end - r.control.first;
  out.width = static_cast<int>(r.control.right - r.control.left),
  out.height = static_cast<int>(r.control.bottom - r.control.top);
  return out;
}

// A video of a request, and what the clip takes of it.
struct Use {
  const char* field;
  const Footage* footage;  // null: not given, or not used
  Fit fit;
};

std::array<Use, 3> uses_of(const Resolved& r) {
  const VideoRequest& q = r.request;
  const Footage* const control = r.control.follows ? q.control_video.get() : nullptr;
  const bool of_control = control != nullptr, of_video = q.video && !q.control_video;
  return {{{"video", q.video.get(), clip_of(q)},
           {"control_video", control, place_of(r)},
           {"mask_video", of_control || of_video ? q.mask_video.get() : nullptr,
            of_control ? place_of(r) : clip_of(q)}}};
}

template <class Do>
void for_references(const VideoRequest& q, const Do& act) {
  const std::pair<const char*, const Picture*> references[] = {{"reference", q.reference.get()},
                                                               {"reference_2", q.reference_2.get()},
                                                               {"reference_3", q.reference_3.get()},
                                                               {"reference_4", q.reference_4.get()}};
  for (const auto& [field, picture] : references)
    if (picture) act(field, *picture);
}

CanvasSize canvas_of(const ModelBundle& model, const VideoRequest& q) {
  return {static_cast<int>(model.vae_config.spatial_stride()), *q.width, *q.height};
}

}  // namespace

Footage read_footage(const std::filesystem::path& path, const FootageLimits& limits) {
  ReadVideoOptions options;
  if (limits.frames > 0) options.max_frames = limits.frames + 1;
  if (limits.pixels > 0) options.max_pixels = limits.pixels;
  const auto reader = VideoReader::open(path, options);
  const VideoInfo& info = reader->info();
  Footage out{path.string(), info.width, info.height, info.fps, info.frames};
  for (RgbFrame frame; info.frames == 0 && reader->read(frame);) ++out.frames;
  check(out.frames > 0, ErrorCode::corrupt, "{}: it has no frames", path.string());
  require(limits.frames == 0 || out.frames <= limits.frames, "{}: it has {} frames, and at most {} are read",
          path.string(), info.frames > 0 ? fmt::format("{}", out.frames) : "more", limits.frames);
  return out;
}

void look_at_frames(Footage& footage, int64_t most_frames, bool mask) {
  const int64_t most = std::min(footage.frames, most_frames);
  const auto reader = VideoReader::open(footage.path);
  int64_t seen = 0;
  for (RgbFrame frame; seen < most && reader->read(frame); ++seen)
    if (mask) check_is_mask(footage, frame, seen);
  check(seen > 0, ErrorCode::corrupt, "{}: it has no frames", called(footage));
  if (seen < most) footage.frames = seen;
}

std::string sha256_of_footage(const std::string& path, const std::string& input) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return sha256_of_file(path, input);
  Sha256 all;
  const auto files = naming(fmt::format("`{}`", input), [&] { return files_of_video(path); });
  for (const auto& file : files) all.add(sha256_of_file(file.string(), input));
  return all.hex();
}

bool takes_footage(const Resolved& r) { return r.request.video || r.control.follows; }

void check_footage_fits(const ModelBundle& model, const Resolved& r) {
  if (!takes_footage(r)) return;
  for (const Use& use : uses_of(r))
    if (use.footage) check_bytes(use.field, use.fit), say_what_is_done(use.field, *use.footage, use.fit);
  if (r.control.follows)
    for_references(r.request, [&](const char* field, const Picture& picture) {
      check_fits_canvas(field, picture, canvas_of(model, r.request));
    });
}

std::shared_ptr<const ClipPixels> clip_footage(const ModelBundle& model, const Resolved& r,
                                               const StopFlags& stop) {
  if (!takes_footage(r)) return nullptr;
  auto out = std::make_shared<ClipPixels>();
  const auto [video, control, mask] = uses_of(r);
  if (video.footage) out->start = pixels(video.field, *video.footage, video.fit, stop);
  if (control.footage) out->control = pixels(control.field, *control.footage, control.fit, stop);
  if (mask.footage) out->mask = mask_values(*mask.footage, mask.fit, stop);
  if (r.control.follows)
    for_references(r.request, [&](const char* field, const Picture& picture) {
      out->references.push_back(on_canvas(field, picture, canvas_of(model, r.request)));
    });
  return out;
}

}  // namespace tachy
