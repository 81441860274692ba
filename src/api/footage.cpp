// Videos that a request begins with: what they are, and the frames that a clip takes of them.
#include "request/footage.h"

#include <algorithm>
#include <cmath>

#include "api/clip_footage.h"
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
      : field_(field), footage_(footage), stop_(stop), reader_(VideoReader::open(footage.path)) {}

  // Returns frame `index`. If the file ends before the number of frames that it stated, the last one is repeated.
  const RgbFrame& at(int64_t index) {
    while (next_ <= index) {
      stop_.throw_if_cancelled();
      RgbFrame frame;
      if (!reader_->read(frame)) {
        check(next_ > 0, ErrorCode::corrupt, "`{}`: {}: it has no frames", field_, footage_.path);
        warn("`{}`: {} ends after {} of the {} frames that it states; the last one is repeated", field_,
             footage_.path, next_, footage_.frames);
        next_ = index + 1;
        break;
      }
      check(frame.width > 0 && frame.height > 0, ErrorCode::corrupt, "`{}`: {}: frame {} is empty", field_,
            footage_.path, next_);
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
  if (!done.empty()) say_line(fmt::format("`{}`: {}{}", field, f.path, done));
}

// Calls take(frame, i) for each frame of the clip, in the clip's size. A still picture serves for all of them.
template <class Take>
void for_frames(const char* field, const Footage& f, const Fit& fit, const StopFlags& stop,
                const Take& take) {
  check(static_cast<double>(fit.count) * fit.width * fit.height * 3 <= kMostBytes, ErrorCode::unsupported,
        "`{}`: {} frames of {}x{} take more than {} GiB; at most {} `frames` of this size can be given",
        field, fit.count, fit.width, fit.height, 8,
        static_cast<int64_t>(kMostBytes / (static_cast<double>(fit.width) * fit.height * 3)));
  say_what_is_done(field, f, fit);
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
          f.path, index, 100.0 * static_cast<double>(coloured) / static_cast<double>(all),
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

// Resizes [h, w, 3] bilinearly without a wider filter for shrinking, as torch's interpolate does.
std::vector<float> bilinear(const std::vector<float>& in, int64_t w, int64_t h, int64_t width,
                            int64_t height) {
  struct Tap {
    int64_t low, high;
    float part;
  };
  const auto taps = [](int64_t from, int64_t to) {
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    std::vector<Tap> out;
    for (int64_t i = 0; i < to; ++i) {
      const float at = std::max(scale * (static_cast<float>(i) + 0.5f) - 0.5f, 0.0f);
      const auto low = std::min(static_cast<int64_t>(at), from - 1);
      out.push_back({low, std::min(low + 1, from - 1), at - static_cast<float>(low)});
    }
    return out;
  };
  const std::vector<Tap> columns = taps(w, width), rows = taps(h, height);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(width * height * 3));
  for (const Tap& y : rows)
    for (const Tap& x : columns)
      for (int64_t c = 0; c < 3; ++c) {
        const auto value = [&](int64_t row, int64_t column) {
          return in[static_cast<size_t>((row * w + column) * 3 + c)];
        };
        const float above = (1 - x.part) * value(y.low, x.low) + x.part * value(y.low, x.high),
                    below = (1 - x.part) * value(y.high, x.low) + x.part * value(y.high, x.high);
        out.push_back((1 - y.part) * above + y.part * below);
      }
  return out;
}

// Lays a reference picture on a white canvas of the clip's size, as large as it fits there, as diffusers does: it is
// resized to multiples of `multiple` first, and then bilinearly.
std::vector<float> on_canvas(const char* field, const Picture& picture, int multiple, int width, int height) {
  const int w = picture.width / multiple * multiple, h = picture.height / multiple * multiple;
  require(w > 0 && h > 0, "`{}`: {}x{} pixels are too few for a reference; at least {}x{} are needed", field,
          picture.width, picture.height, multiple, multiple);
  const RgbFrame whole =
      resize({picture.rgb.data(), picture.width, picture.height, int64_t{picture.width} * 3}, w, h);
  const double scale = std::min(static_cast<double>(height) / h, static_cast<double>(width) / w);
  const auto new_h = static_cast<int64_t>(h * scale), new_w = static_cast<int64_t>(w * scale);
  require(new_w > 0 && new_h > 0, "`{}`: {}x{} is too narrow to be seen in {}x{}", field, picture.width,
          picture.height, width, height);
  std::vector<float> values;
  values.reserve(whole.rgb.size());
  for (const uint8_t v : whole.rgb) values.push_back(2.0f * (static_cast<float>(v) / 255.0f) - 1.0f);
  if (new_w != w || new_h != h) values = bilinear(values, w, h, new_w, new_h);
  std::vector<float> canvas(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 1.0f);
  const int64_t top = (height - new_h) / 2, left = (width - new_w) / 2;
  for (int64_t y = 0; y < new_h; ++y)
    std::copy_n(values.begin() + y * new_w * 3, new_w * 3, canvas.begin() + ((top + y) * width + left) * 3);
  return canvas;
}

}  // namespace

Footage read_footage(const std::filesystem::path& path) {
  const auto reader = VideoReader::open(path);
  const VideoInfo& info = reader->info();
  Footage out{path.string(), info.width, info.height, info.fps, info.frames};
  for (RgbFrame frame; info.frames == 0 && reader->read(frame);) ++out.frames;
  check(out.frames > 0, ErrorCode::corrupt, "{}: it has no frames", path.string());
  return out;
}

std::string sha256_of_footage(const std::string& path, const std::string& input) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return sha256_of_file(path, input);
  Sha256 all;
  const auto files = naming(fmt::format("`{}`", input), [&] { return files_of_video(path); });
  for (const auto& file : files) all.add(sha256_of_file(file.string(), input));
  return all.hex();
}

std::shared_ptr<const ClipPixels> clip_footage(const ModelBundle& model, const Resolved& r,
                                               const StopFlags& stop) {
  const VideoRequest& q = r.request;
  const ControlPlan& plan = r.control;
  if (!q.video && !plan.follows) return nullptr;
  auto out = std::make_shared<ClipPixels>();
  const Fit clip{q.image_fit, *q.fps, *q.frames, *q.width, *q.height};
  if (q.video) out->start = pixels("video", *q.video, clip, stop);
  if (q.video && q.mask_video && !q.control_video) out->mask = mask_values(*q.mask_video, clip, stop);
  if (!plan.follows) return out;
  Fit place = clip;
  place.count = plan.end - plan.first;
  place.width = static_cast<int>(plan.right - plan.left),
  place.height = static_cast<int>(plan.bottom - plan.top);
  if (q.control_video) out->control = pixels("control_video", *q.control_video, place, stop);
  if (q.control_video && q.mask_video) out->mask = mask_values(*q.mask_video, place, stop);
  const std::pair<const char*, const Picture*> references[] = {{"reference", q.reference.get()},
                                                               {"reference_2", q.reference_2.get()},
                                                               {"reference_3", q.reference_3.get()},
                                                               {"reference_4", q.reference_4.get()}};
  for (const auto& [field, picture] : references)
    if (picture)
      out->references.push_back(on_canvas(
          field, *picture, static_cast<int>(model.vae_config.spatial_stride()), *q.width, *q.height));
  return out;
}

}  // namespace tachy
