// Says what a job would take before it is accepted: memory, time, its place in the queue; and what would fit if
// it does not.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/notice.h"
#include "jobs/job_json.h"
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

Planned does_not_fit(ShapePlanner& planner, const Error& e) {
  Planned out;
  out.nearest = planner.nearest();
  if (out.nearest.empty() && e.code() != ErrorCode::out_of_memory) throw e;
  out.reason = e.message();
  if (!out.nearest.empty()) out.reason += fmt::format("; the nearest that fits: {}", json_line(out.nearest));
  return out;
}

Planned planned(Engine& engine, const VideoRequest& request, ShapePlanner::CheckMemory check) {
  Planned out;
  const LineScope lines([&](std::string_view text) { out.lines.emplace_back(text); });
  ShapePlanner planner(engine, request, std::move(check));
  try {
    out.prepared = std::make_shared<const PreparedRequest>(planner.plan());
  } catch (const Error& e) {
    if (!may_be_too_large(e)) throw;
    std::vector<std::string> said = std::move(out.lines);
    out = does_not_fit(planner, e);
    out.lines = std::move(said);
  }
  return out;
}

// Inputs are told apart by their hashes, or by where they lie.
PlanCache::Key key_of(const std::string& model, const jobs::JobSpec& job) {
  nlohmann::json shape = jobs::to_json(job), rest = nlohmann::json::array();
  for (const auto& [field, file] : job.settings.inputs) {
    if (file.sha256.empty()) shape["path of " + field] = file.path;
    shape.erase(field);  // the name of a file that was sent says nothing
  }
  for (const char* field : {"prompt", "negative_prompt", "seed"})
    if (const auto it = shape.find(field); it != shape.end()) rest.push_back(std::move(*it)), shape.erase(it);
  return {model + '\n' + json_line(shape), json_line(rest)};
}

// The memory of other hosts that could make a job, where there are any.
struct MemoryElsewhere {
  bool asked = false;  // whether there are other hosts at all
  bool here = true;    // whether this host runs jobs
  uint64_t most = 0;
  std::string key() const { return asked ? fmt::format("{} {}\n", here, most) : ""; }
};

MemoryElsewhere memory_elsewhere(const ForemanOptions& options, const queue::WaitingJob& job) {
  MemoryElsewhere out{.asked = options.presence != nullptr, .here = options.runs};
  if (!out.asked) return out;
  for (const Host& host : options.presence->hosts())
    if (host.row.name != options.worker && host.about.takes_jobs() && lacks(host.about, job).empty())
      out.most = std::max(out.most, host.about.memory_bytes);
  return out;
}

// Throws out_of_memory if neither this host nor another one has the memory. A host that runs nothing itself lets a job
// wait for a worker when none is there to say.
void check_hosts(const Engine& engine, const MemoryElsewhere& elsewhere, const VideoPlan& plan) {
  if (!elsewhere.asked) return engine.check_memory(plan);
  if (plan.peak_bytes <= elsewhere.most || (elsewhere.most == 0 && !elsewhere.here)) return;
  check(elsewhere.here, ErrorCode::out_of_memory, "it needs {:.1f} GB, and the largest worker has {:.1f} GB",
        static_cast<double>(plan.peak_bytes) / 1e9, static_cast<double>(elsewhere.most) / 1e9);
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
  const MemoryElsewhere elsewhere =
      memory_elsewhere(s.options, {.id = "", .owner = owner, .model = served->name, .needs = needs});
  const std::shared_ptr<const Planned> found = s.asked.get(key_of(elsewhere.key() + served->name, job), [&] {
    return planned(*engine, job.settings.request,
                   [&](const VideoPlan& plan) { check_hosts(*engine, elsewhere, plan); });
  });
  for (const std::string& line : found->lines) say_line(line);
  Outlook out{.fits = found->prepared != nullptr, .reason = found->reason, .nearest = found->nearest};
  if (out.fits) {
    const VideoPlan& plan = found->prepared->plan();
    const bool gpu = engine->device() != "cpu";
    out.gpu_bytes = gpu ? plan.peak_bytes : 0;
    out.host_bytes = gpu ? plan.host_bytes : plan.peak_bytes;
    const Rate rate = s.rates.of(Rates::key(served->name, engine->device()));
    out.seconds = rate.seconds(plan);
    out.seconds_to_preview = seconds_to_preview(*found->prepared, rate);
    out.prepared = found->prepared;
  }
  {
    const std::lock_guard lock(s.bell->mutex);
    out.world_open = s.bell->rooms > 0 && s.models.cards() == 1;
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
