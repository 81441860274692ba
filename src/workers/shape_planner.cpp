#include "workers/shape_planner.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace tachy::workers {
namespace {

constexpr double kSearchSeconds = 3;
// Shapes of more pixels in all frames are looked at by small ones first.
constexpr double kLarge = 1024.0 * 1024 * 81;
constexpr double kSmallSide = 64, kLessSmallSide = 160;
// A shape is hopeless if it seems to need this many times the memory that there is.
constexpr uint64_t kHopeless = 4;

double area(const Shape& s) { return static_cast<double>(s.width) * s.height; }

Shape with_area(const Shape& shape, double side, const Grid& grid) {
  const double by = side / std::sqrt(area(shape));
  Shape out = on_grid({std::max(static_cast<int>(shape.width * by), 1),
                       std::max(static_cast<int>(shape.height * by), 1), shape.frames},
                      grid);
  return out;
}

// Returns the bytes that grow with the shape.
double bytes_of_shape(const VideoPlan& plan) {
  uint64_t most = 0;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.arena_bytes);
  return static_cast<double>(most + plan.shared_bytes);
}

}  // namespace

ShapePlanner::ShapePlanner(Engine& engine, const VideoRequest& request, CheckMemory check)
    : engine_(engine),
      check_(std::move(check)),
      request_(request),
      framed_(request.frames || !(request.speech || request.video || request.control_video)) {
  if (!check_) check_ = [this](const VideoPlan& plan) { engine_.check_memory(plan); };
}

Shape ShapePlanner::shape_of(const VideoRequest& request) const {
  const VideoRequest& defaults = engine_.defaults();
  return {request.width.value_or(defaults.width.value_or(1)),
          request.height.value_or(defaults.height.value_or(1)),
          framed_ ? request.frames.value_or(defaults.frames.value_or(1)) : 1};
}

VideoRequest ShapePlanner::with_shape(const Shape& shape) const {
  VideoRequest out = request_;
  out.width = shape.width, out.height = shape.height;
  if (framed_) out.frames = shape.frames;
  return out;
}

void ShapePlanner::refuse_hopeless(const Shape& shape) {
  const Grid grid{engine_.size_multiple(), engine_.frame_multiple()};
  const Shape small = with_area(shape, kSmallSide, grid), larger = with_area(shape, kLessSmallSide, grid);
  if (area(larger) <= area(small) || area(larger) >= area(shape)) return;
  const double less = bytes_of_shape(prepared(with_shape(small)).plan());
  VideoPlan plan = prepared(with_shape(larger)).plan();
  const double more = bytes_of_shape(plan);
  const double slope = std::max(more - less, 0.0) / (area(larger) - area(small));
  const double bytes = more + slope * (area(shape) - area(larger));
  plan.peak_bytes = static_cast<uint64_t>(bytes) / kHopeless;
  try {
    check_(plan);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    fail(ErrorCode::out_of_memory,
         "{}x{} pixels in {} frames need far more memory than there is: about {:.0f} GB", shape.width,
         shape.height, shape.frames, bytes / 1e9);
  }
}

// A plan may wait, and must not hold a video's frames meanwhile.
PreparedRequest ShapePlanner::prepared(const VideoRequest& request) const {
  return engine_.prepare(request, nullptr, ReadVideos::when_run);
}

PreparedRequest ShapePlanner::planned(const VideoRequest& request) {
  const Shape shape = shape_of(request);
  if (area(shape) * shape.frames > kLarge) refuse_hopeless(shape);
  PreparedRequest out = prepared(request);
  check_(out.plan());
  return out;
}

nlohmann::json ShapePlanner::nearest() {
  const double end = monotonic_seconds() + kSearchSeconds;
  const auto fits = [&](const Shape& shape) {
    if (monotonic_seconds() > end) return false;
    try {
      planned(with_shape(shape));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const Grid grid{engine_.size_multiple(), engine_.frame_multiple()};
  const std::optional<Shape> found = nearest_that_fits(shape_of(request_), grid, fits);
  return found ? fields_of_shape(*found, framed_) : nlohmann::json::object();
}

}  // namespace tachy::workers
