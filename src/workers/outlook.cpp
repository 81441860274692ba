// What a job would take, before it is accepted: memory, time, its place in the queue; and what would fit if
// it does not.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "workers/foreman_state.h"
#include "workers/nearest.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

// Says whether a request may be well formed, but impossible: too large for the machine or the model, or off
// its grid. Models state their limits without naming a field, so then it is tried whether something smaller
// would do.
bool may_be_too_large(const Error& e) {
  if (e.code() == ErrorCode::out_of_memory) return true;
  if (e.code() != ErrorCode::invalid_argument) return false;
  return !e.message().starts_with('`') ||
         std::ranges::any_of(std::initializer_list<const char*>{"`width`", "`height`", "`frames`"},
                             [&](const char* field) { return e.message().starts_with(field); });
}

PreparedRequest planned(Engine& engine, const VideoRequest& request) {
  PreparedRequest prepared = engine.prepare(request);
  engine.check_memory(prepared.plan());
  return prepared;
}

// What was found by then is named.
constexpr double kSearchSeconds = 3;

nlohmann::json nearest_to(Engine& engine, const VideoRequest& request) {
  const VideoRequest& defaults = engine.defaults();
  // A talking photo has as many frames as its speech, unless somebody says otherwise.
  const bool framed = request.frames || !request.speech;
  const Shape wanted{request.width.value_or(defaults.width.value_or(1)),
                     request.height.value_or(defaults.height.value_or(1)),
                     framed ? request.frames.value_or(defaults.frames.value_or(1)) : 1};
  const double end = monotonic_seconds() + kSearchSeconds;
  const auto fits = [&](const Shape& shape) {
    if (monotonic_seconds() > end) return false;
    VideoRequest smaller = request;
    smaller.width = shape.width, smaller.height = shape.height;
    if (framed) smaller.frames = shape.frames;
    try {
      planned(engine, smaller);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const Grid grid{engine.size_multiple(), engine.frame_multiple()};
  const std::optional<Shape> found = nearest_that_fits(wanted, grid, fits);
  return found ? fields_of_shape(*found, framed) : nlohmann::json::object();
}

void does_not_fit(Outlook& out, Engine& engine, const VideoRequest& request, const Error& e) {
  out.fits = false;
  out.nearest = nearest_to(engine, request);
  out.reason = e.message();
  if (!out.nearest.empty()) out.reason += fmt::format("; the nearest that fits: {}", json_line(out.nearest));
}

double seconds_to_preview(const PreparedRequest& prepared, const Rate& rate) {
  double seconds = 0;
  for (const StagePlan& stage : prepared.plan().stages) {
    if (stage.name == "denoise")
      return seconds + rate.seconds(stage) / std::max(prepared.request().steps.value_or(1), 1);
    seconds += rate.seconds(stage);
  }
  return seconds;
}

}  // namespace

Outlook Foreman::outlook(const jobs::JobSpec& job, const std::string& model, int priority) {
  State& s = *state_;
  const ServedModel* const served = s.models.find(model);
  check(served != nullptr, ErrorCode::not_found, "`model`: there is no model '{}' here", model);
  require(!served->world, "`model`: {} is a world, which is steered and makes no videos", served->name);
  const std::shared_ptr<Engine> engine = s.models.open(served->name);
  Outlook out;
  const queue::TurnQueue::Place place =
      s.turns.would_get({.model = served->name, .priority = priority, .created_ms = wall_clock_ms()});
  out.queue_position = place.position, out.wait_seconds = place.start_seconds;
  try {
    auto prepared = std::make_shared<const PreparedRequest>(planned(*engine, job.settings.request));
    const VideoPlan& plan = prepared->plan();
    const bool gpu = engine->device() != "cpu";
    out.gpu_bytes = gpu ? plan.peak_bytes : 0;
    out.host_bytes = gpu ? plan.host_bytes : plan.peak_bytes;
    const Rate rate = s.rates.of(Rates::key(served->name, engine->device()));
    out.seconds = rate.seconds(plan);
    out.seconds_to_preview = seconds_to_preview(*prepared, rate);
    out.prepared = std::move(prepared);
  } catch (const Error& e) {
    if (!may_be_too_large(e)) throw;
    does_not_fit(out, *engine, job.settings.request, e);
    if (out.nearest.empty() && e.code() != ErrorCode::out_of_memory) throw;
  }
  return out;
}

}  // namespace tachy::workers
