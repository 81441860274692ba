#include "api/speaker_regions.h"

#include <algorithm>

#include "base/error.h"
#include "media/picture/image_reader.h"
#include "request/speakers.h"

namespace tachy {
namespace {

// Returns which of `in` pixels is nearest to pixel `at` of `out`, as in PyTorch's nearest resize, which
// computes in float32.
int64_t nearest(int64_t at, int64_t in, int64_t out) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  return std::clamp(static_cast<int64_t>(static_cast<float>(at) * scale), int64_t{0}, in - 1);
}

bool marked(const Picture& mask, int64_t x, int64_t y) {
  const uint8_t* pixel = &mask.rgb[static_cast<size_t>(3 * (y * mask.width + x))];
  return pixel[0] || pixel[1] || pixel[2];
}
bool inside(const SpeakerBox& box, int64_t x, int64_t y) {
  return box.x0 <= x && x < box.x1 && box.y0 <= y && y < box.y1;
}

}  // namespace

std::vector<uint8_t> speaker_regions(const VideoRequest& r, int64_t rows, int64_t columns) {
  const int64_t w = r.image->width, h = r.image->height;
  Cover fitted{*r.width, *r.height};
  if (r.image_fit == "crop") fitted = cover(w, h, *r.width, *r.height);
  const std::vector<SpeakerBox> boxes = speaker_boxes(r, w, h);
  const Picture* masks[] = {r.speaker_mask.get(), r.speaker_mask_2.get()};
  const int64_t tokens = rows * columns;
  std::vector<uint8_t> out(static_cast<size_t>(3 * tokens), 0);
  int64_t found[3] = {};
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t x = nearest(t % columns * (*r.width / columns) - fitted.left, w, fitted.width),
                  y = nearest(t / columns * (*r.height / rows) - fitted.top, h, fitted.height);
    int64_t of = 2;
    for (const int64_t s : {1, 0})
      if (masks[s] ? marked(*masks[s], x, y) : inside(boxes[static_cast<size_t>(s)], x, y)) of = s;
    out[static_cast<size_t>(of * tokens + t)] = 1;
    ++found[of];
  }
  for (const int s : {0, 1})
    require(found[s] > 0,
            "`{}`: no part of the video shows the {} speaker: its place is too small, or outside of what "
            "`image_fit` {} leaves of the picture",
            masks[s] ? (s ? "speaker_mask_2" : "speaker_mask") : "speaker_boxes", s ? "second" : "first",
            r.image_fit);
  return out;
}

}  // namespace tachy
