// Says what a job would take before it is accepted: memory, time, its place in the queue; and what would fit if
// it does not.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "workers/foreman_state.h"
#include "workers/placement.h"
#include "workers/shape_planner.h"

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

void does_not_fit(Outlook& out, ShapePlanner& planner, const Error& e) {
  out.fits = false;
  out.nearest = planner.nearest();
  out.reason = e.message();
  if (!out.nearest.empty()) out.reason += fmt::format("; the nearest that fits: {}", json_line(out.nearest));
}

// Throws out_of_memory if neither this host nor another one has the memory. A host that runs nothing itself lets a job
// wait for a worker when none is there to say.
void check_hosts(const Engine& engine, const ForemanOptions& options, const queue::WaitingJob& job,
                 const VideoPlan& plan) {
  if (!options.presence) return engine.check_memory(plan);
  uint64_t most = 0;
  for (const Host& host : options.presence->hosts())
    if (host.row.name != options.worker && host.about.takes_jobs() && lacks(host.about, job).empty())
      most = std::max(most, host.about.memory_bytes);
  if (plan.peak_bytes <= most || (most == 0 && !options.runs)) return;
  check(options.runs, ErrorCode::out_of_memory, "it needs {:.1f} GB, and the largest worker has {:.1f} GB",
        static_cast<double>(plan.peak_bytes) / 1e9, static_cast<double>(most) / 1e9);
  engine.check_memory(plan);
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

Outlook Foreman::outlook(const jobs::JobSpec& job, const std::string& model, int priority,
                         const std::string& owner, const std::string& needs) {
  State& s = *state_;
  const ServedModel* const served = s.models.find(model);
  check(served != nullptr, ErrorCode::not_found, "`model`: there is no model '{}' here", model);
  require(!served->world, "`model`: {} is a world, which is steered and makes no videos", served->name);
  const std::shared_ptr<Engine> engine = s.models.open(served->name);
  Outlook out;
  const queue::WaitingJob asked{.id = "", .owner = owner, .model = served->name, .needs = needs};
  ShapePlanner planner(*engine, job.settings.request,
                       [&](const VideoPlan& plan) { check_hosts(*engine, s.options, asked, plan); });
  try {
    auto prepared = std::make_shared<const PreparedRequest>(planner.plan());
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
    does_not_fit(out, planner, e);
    if (out.nearest.empty() && e.code() != ErrorCode::out_of_memory) throw;
  }
  const queue::TurnQueue::Place place = s.turns.would_get({.owner = owner,
                                                           .model = served->name,
                                                           .needs = needs,
                                                           .priority = priority,
                                                           .planned_seconds = out.seconds,
                                                           .created_ms = s.table.now_ms()});
  out.queue_position = place.position, out.wait_seconds = place.start_seconds;
  return out;
}

}  // namespace tachy::workers
