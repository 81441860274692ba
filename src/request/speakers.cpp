#include "request/speakers.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tachy {
namespace {

constexpr const char* kTogether = "together";
constexpr const char* kInTurn = "one-after-the-other";

SpeakerBox parse_box(const std::string& text) {
  SpeakerBox box;
  const char *at = text.data(), *end = at + text.size();
  bool whole = true;
  for (int64_t* value : {&box.x0, &box.y0, &box.x1, &box.y1}) {
    if (value != &box.x0) whole = whole && at < end && *at++ == ',';
    const auto [next, error] = std::from_chars(at, end, *value);
    whole = whole && error == std::errc();
    at = next;
  }
  require(whole && at == end,
          "`speaker_boxes`: expected X0,Y0,X1,Y1 in pixels of the picture such as 40,60,260,400, got '{}'",
          text);
  return box;
}

void check_boxes(const VideoRequest& r) {
  const int64_t width = r.image->width, height = r.image->height;
  const std::vector<SpeakerBox> boxes = speaker_boxes(r, width, height);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const auto& [x0, y0, x1, y1] = boxes[i];
    require(0 <= x0 && x0 < x1 && x1 <= width && 0 <= y0 && y0 < y1 && y1 <= height,
            "`speaker_boxes`: expected a box inside the picture of {}x{} (X0 < X1 up to {}, Y0 < Y1 up to "
            "{}), got '{}'",
            width, height, width, height, r.speaker_boxes[i]);
  }
  const SpeakerBox &a = boxes[0], &b = boxes[1];
  require(a.x1 <= b.x0 || b.x1 <= a.x0 || a.y1 <= b.y0 || b.y1 <= a.y0,
          "`speaker_boxes`: {} and {} overlap; make them smaller, or give masks (`speaker_mask`)",
          r.speaker_boxes[0], r.speaker_boxes[1]);
}

bool is_marked(const Picture& mask, size_t pixel) {
  return mask.rgb[3 * pixel] || mask.rgb[3 * pixel + 1] || mask.rgb[3 * pixel + 2];
}

void check_masks(const VideoRequest& r) {
  const auto check_mask = [&](const char* name, const Picture& mask) {
    require(mask.width == r.image->width && mask.height == r.image->height,
            "`{}`: expected the picture's size, {}x{}, got {}x{}", name, r.image->width, r.image->height,
            mask.width, mask.height);
  };
  check_mask("speaker_mask", *r.speaker_mask);
  check_mask("speaker_mask_2", *r.speaker_mask_2);
  size_t both = 0;
  for (size_t i = 0; 3 * i < r.speaker_mask->rgb.size(); ++i)
    both += is_marked(*r.speaker_mask, i) && is_marked(*r.speaker_mask_2, i);
  require(both == 0, "`speaker_mask_2`: {} pixels are not black in both masks: each belongs to one speaker",
          both);
}

}  // namespace

void resolve_speakers(VideoRequest& r) {
  const bool masked = r.speaker_mask || r.speaker_mask_2;
  if (!r.speech_2) {
    const auto needless = [](const char* name, const std::string& what) {
      fail(ErrorCode::invalid_argument,
           "`{}`: {} is for two speakers, and the second one's sound is missing (`speech_2`)", name, what);
    };
    if (r.speakers) needless("speakers", *r.speakers);
    if (!r.speaker_boxes.empty()) needless("speaker_boxes", r.speaker_boxes.front());
    if (masked) needless(r.speaker_mask ? "speaker_mask" : "speaker_mask_2", "a mask");
    return;
  }
  require(r.speech != nullptr, "`speech_2`: the first speaker's sound is missing (`speech`)");
  require(r.image != nullptr, "`speech_2`: two speakers need a picture to be in (`image`)");
  if (!r.speakers || *r.speakers == "para") r.speakers = kTogether;
  if (*r.speakers == "add") r.speakers = kInTurn;
  require(r.speaker_boxes.empty() || r.speaker_boxes.size() == 2,
          "`speaker_boxes`: expected two boxes, one for each speaker, got {}", r.speaker_boxes.size());
  require(r.speaker_boxes.empty() || !masked,
          "`speaker_boxes`: give boxes or masks (`speaker_mask`), not both");
  require(!masked || (r.speaker_mask && r.speaker_mask_2),
          "`{}`: each speaker needs a mask, and this one's is missing",
          r.speaker_mask ? "speaker_mask_2" : "speaker_mask");
  if (masked) return check_masks(r);
  if (!r.speaker_boxes.empty()) check_boxes(r);
}

std::vector<SpeakerBox> speaker_boxes(const VideoRequest& r, int64_t width, int64_t height) {
  std::vector<SpeakerBox> out;
  for (const std::string& text : r.speaker_boxes) out.push_back(parse_box(text));
  if (!out.empty()) return out;
  constexpr double kMargin = 0.05;
  const auto part = [](int64_t whole, double share) {
    return static_cast<int64_t>(static_cast<double>(whole) * share);
  };
  const int64_t half = width / 2, y0 = part(height, kMargin), y1 = part(height, 1 - kMargin);
  const auto x0 = static_cast<double>(half) * kMargin, x1 = static_cast<double>(half) * (1 - kMargin);
  for (const double left : {0.0, static_cast<double>(half)})
    out.push_back({static_cast<int64_t>(x0 + left), y0, static_cast<int64_t>(x1 + left), y1});
  return out;
}

size_t spoken_samples(const VideoRequest& r) {
  const size_t first = r.speech->samples.size();
  if (!r.speech_2) return first;
  const size_t second = r.speech_2->samples.size();
  return *r.speakers == kInTurn ? first + second : std::max(first, second);
}

void lay_in_time(const std::string& speakers, std::vector<float>& first, std::vector<float>& second) {
  if (speakers == kInTurn) {
    second.insert(second.begin(), first.size(), 0.0f);
    first.resize(second.size());
    return;
  }
  const size_t samples = std::max(first.size(), second.size());
  first.resize(samples), second.resize(samples);
}

}  // namespace tachy
