#include "media/video/stills.h"

#include <algorithm>
#include <cstring>

#include "base/env.h"
#include "base/error.h"
#include "media/picture/image_reader.h"
#include "media/picture/jpeg.h"
#include "media/video/video_reader.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

std::vector<uint8_t> jpeg_of(RgbView picture) {
  std::vector<uint8_t> out;
  JpegEncoder(85).encode(picture, out);
  return out;
}

// Returns the frame, no larger than the box.
RgbFrame fitted(RgbFrame frame, int width, int height) {
  const double scale = std::min({1.0, double(width) / frame.width, double(height) / frame.height});
  if (scale == 1) return frame;
  const auto side = [&](int pixels) { return std::max(1, static_cast<int>(pixels * scale + 0.5)); };
  return resize(frame.view(), side(frame.width), side(frame.height));
}

// Returns the number of frames. A container that does not tell it is read to its end.
int64_t count_frames(const fs::path& video, CancelFlag cancel) {
  const auto reader = VideoReader::open(video);
  if (reader->info().frames > 0) return reader->info().frames;
  int64_t count = 0;
  for (RgbFrame frame; reader->read(frame); ++count) cancel.throw_if_set();
  return count;
}

// Returns the frame with this number, or the last one before it if the container has told too many.
RgbFrame frame_near(const fs::path& video, int64_t number, CancelFlag cancel, int64_t* at) {
  const auto reader = VideoReader::open(video);
  RgbFrame frame, next;
  *at = -1;
  while (*at < number && reader->read(next)) {
    cancel.throw_if_set();
    std::swap(frame, next), ++*at;
  }
  check(*at >= 0, ErrorCode::corrupt, "{}: it has no frames", video.string());
  return frame;
}

void place(const RgbFrame& small, int left, int top, RgbFrame& sheet) {
  for (int y = 0; y < small.height; ++y)
    std::memcpy(sheet.row(top + y) + size_t(left) * 3, small.row(y), size_t(small.width) * 3);
}

}  // namespace

RgbFrame frame_of_video(const fs::path& video, int64_t number, CancelFlag cancel) {
  require(number >= -1, "{}: expected the number of a frame from 0 on, or -1 for the last one, got {}",
          video.string(), number);
  int64_t at = 0;
  RgbFrame frame = frame_near(video, number == -1 ? INT64_MAX : number, cancel, &at);
  require(number == -1 || at == number, "{}: it has {}, so none has the number {}", video.string(),
          count_of(at + 1, "frame"), number);
  return frame;
}

std::vector<uint8_t> thumbnail_of(const fs::path& video, int longest, CancelFlag cancel) {
  int64_t at = 0;
  const int64_t number = count_frames(video, cancel) / 3;
  return jpeg_of(fitted(frame_near(video, number, cancel, &at), longest, longest).view());
}

std::vector<uint8_t> spritesheet_of(const fs::path& video, const SheetOptions& o, CancelFlag cancel) {
  require(o.most_frames >= 1 && o.most_frames <= 1000 && o.columns >= 1 && o.columns <= 100 && o.width >= 1 &&
              o.height >= 1 && int64_t{o.width} * o.columns <= kMaxImageSide &&
              int64_t{o.height} * ((o.most_frames + o.columns - 1) / o.columns) <= kMaxImageSide,
          "spritesheet: {} frames of {}x{} in {} columns are too many", o.most_frames, o.width, o.height,
          o.columns);
  const int64_t all = std::max<int64_t>(1, count_frames(video, cancel));
  const int64_t count = std::min<int64_t>(all, o.most_frames);
  const auto reader = VideoReader::open(video);
  const int64_t rows = (count + o.columns - 1) / o.columns;
  RgbFrame sheet, frame;
  int64_t placed = 0;
  for (int64_t at = 0; placed < count && reader->read(frame); ++at) {
    cancel.throw_if_set();
    if (at < placed * all / count) continue;
    const RgbFrame small = fitted(std::move(frame), o.width, o.height);
    if (placed == 0)
      sheet = RgbFrame(small.width * static_cast<int>(std::min<int64_t>(count, o.columns)),
                       small.height * static_cast<int>(rows));
    place(small, static_cast<int>(placed % o.columns) * small.width,
          static_cast<int>(placed / o.columns) * small.height, sheet);
    ++placed;
  }
  check(placed > 0, ErrorCode::corrupt, "{}: it has no frames", video.string());
  return jpeg_of(sheet.view());
}

}  // namespace tachy
