#include "models/clip_vision/clip_preparation.h"

#include <cmath>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr const char* kWhat = "image processor";
constexpr int64_t kBicubic = 3;  // Pillow's number for this filter

// Accepts "size": {"shortest_edge": 224} or 224, and "crop_size": {"height": 224, "width": 224} or 224.
int64_t extent(const nlohmann::json& j, const char* key, std::initializer_list<const char*> sides,
               int64_t otherwise) {
  const auto found = j.find(key);
  if (found == j.end() || found->is_null()) return otherwise;
  if (!found->is_object()) return json_int(j, key, otherwise, 1, 4096);
  int64_t out = 0;
  for (const char* side : sides) {
    check(found->contains(side), ErrorCode::unsupported, "{}: '{}' is {}, expected one with {}", kWhat, key,
          found->dump(), side);
    const int64_t value = json_int(*found, side, otherwise, 1, 4096);
    check(out == 0 || out == value, ErrorCode::unsupported, "{}: '{}' is {}, expected a square", kWhat, key,
          found->dump());
    out = value;
  }
  return out;
}

void take_channels(const nlohmann::json& j, const char* key, std::array<double, 3>& to, double least) {
  const std::vector<double> values = json_doubles(j, key, 3);
  if (values.empty()) return;
  check(values.size() == 3, ErrorCode::corrupt, "{}: '{}' has {} values, expected 3", kWhat, key,
        values.size());
  for (size_t i = 0; i < 3; ++i) {
    check(std::isfinite(values[i]) && values[i] >= least && values[i] <= 1e6, ErrorCode::corrupt,
          "{}: '{}' holds {}, expected {} to 1e6", kWhat, key, values[i], least);
    to[i] = values[i];
  }
}

}  // namespace

ClipPreparation clip_preparation(const nlohmann::json& j, int side) {
  ClipPreparation out;
  for (const char* step : {"do_resize", "do_center_crop", "do_rescale", "do_normalize"})
    check(json_bool(j, step, true), ErrorCode::unsupported,
          "{}: {} is false; pictures are always prepared so", kWhat, step);
  const int64_t resample = json_int(j, "resample", kBicubic, 0, 100);
  check(resample == kBicubic, ErrorCode::unsupported, "{}: 'resample' is {}, expected {} (bicubic)", kWhat,
        resample, kBicubic);
  out.shortest_edge = static_cast<int>(extent(j, "size", {"shortest_edge"}, side));
  out.side = static_cast<int>(extent(j, "crop_size", {"height", "width"}, side));
  check(out.side == side, ErrorCode::corrupt, "{}: crop_size {} is not the image encoder's image_size {}",
        kWhat, out.side, side);
  check(out.shortest_edge >= out.side, ErrorCode::unsupported,
        "{}: pictures of {} pixels are too small for a middle of {}", kWhat, out.shortest_edge, out.side);
  out.rescale = json_double(j, "rescale_factor", out.rescale, 0, 1e6);
  take_channels(j, "image_mean", out.mean, -1e6);
  take_channels(j, "image_std", out.deviation, 1e-6);
  return out;
}

}  // namespace tachy
