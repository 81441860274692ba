// The parts of a Foreman and of its jobs that matter where several hosts share the queue: which job is this one's to take,
// how far the jobs of others are, and to whom a job is left that is too large here.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "workers/foreman_state.h"
#include "workers/job_of_row.h"
#include "workers/placement.h"

namespace tachy::workers {
namespace {

// Returns the largest peak that a run may have here, to a megabyte.
uint64_t most_memory(const Engine& engine) {
  uint64_t fits = 0, too_large = uint64_t{1} << 46;
  while (too_large - fits > uint64_t{1} << 20) {
    VideoPlan plan;
    plan.peak_bytes = fits + (too_large - fits) / 2;
    try {
      engine.check_memory(plan);
      fits = plan.peak_bytes;
    } catch (const Error&) {
      too_large = plan.peak_bytes;
    }
  }
  return fits;
}

}  // namespace

Foreman::State::Choice Foreman::State::choose(const std::vector<queue::TurnQueue::Next>& order) const {
  if (!options.presence) {
    const auto first = std::ranges::find_if(order, [](const auto& next) { return next.job.awaits.empty(); });
    return {first == order.end() ? nullptr : &first->job, ""};
  }
  const std::vector<Host> hosts = options.presence->hosts();
  Host self;
  self.row = {.name = options.worker, .address = "", .files = options.files_id, .about = ""};
  if (const auto it =
          std::ranges::find(hosts, options.worker, [](const Host& host) { return host.row.name; });
      it != hosts.end())
    self.about.loras = it->about.loras;
  for (const ServedModel& model : models.all())
    if (!model.world) self.about.models.push_back(model.name);
  self.about.loaded = loaded;
  for (const queue::TurnQueue::Next& next : order) {
    if (!next.job.awaits.empty() || lost.contains(next.job.id)) continue;
    // Without the host that has the memory, it fails here, and says so.
    if (refused.contains(next.job.id) && !larger_host(next.job, options.presence->self(), hosts).empty())
      continue;
    const double waited = static_cast<double>(table.now_ms() - next.job.created_ms) / 1e3;
    Placement placement = place(next.job, self, hosts, waited);
    if (placement.take) return {&next.job, std::move(placement.why)};
  }
  return {};
}

bool Foreman::State::is_teller() const {
  if (!options.presence) return true;
  for (const Host& host : options.presence->hosts())
    if (host.about.takes_jobs()) return host.row.name == options.worker;
  return true;
}

Live Foreman::State::explained(const queue::JobRow& row, Live live) const {
  if (live.position < 0) return live;
  Host self;
  self.about.full = full;
  for (const ServedModel& model : models.all()) self.about.models.push_back(model.name);
  // A server that is alone has taken the job, so it has what the job needs.
  const std::vector<Host> hosts = options.presence ? options.presence->hosts() : std::vector<Host>{self};
  live.why = why_waiting({.id = row.id,
                          .owner = row.owner,
                          .model = row.model,
                          .needs = options.presence ? row.needs : row.model},
                         hosts, live.position);
  return live;
}

bool Foreman::State::runs_elsewhere(const queue::JobRow& row) const {
  return options.presence && row.status == queue::Status::in_progress && row.worker != options.worker;
}

// Another host has written into the job's events how far it is. Those lie in its folder; if that is not this host's,
// it has said so in its announcement, too.
Live Foreman::State::live_elsewhere(const queue::JobRow& row) const {
  Live out;
  if (row.status == queue::Status::queued && row.paused) out.why = "it is paused";
  if (!runs_elsewhere(row)) return out;
  if (row.files != options.files_id) {
    if (const std::optional<JobAbout> job = options.presence->job_of(row.worker, row.id))
      out.stage = job->stage, out.done = job->done, out.total = job->total,
      out.eta_seconds = job->eta_seconds;
    return out;
  }
  const std::optional<queue::Event> event = book.latest(row.id, "progress");
  if (!event) return out;
  const nlohmann::json data = parsed_or_discarded(event->data);
  if (!data.is_object()) return out;
  out.stage = data.value("stage", ""), out.done = data.value("done", int64_t{0});
  out.total = data.value("total", int64_t{0}), out.eta_seconds = data.value("eta_seconds", -1.0);
  return out;
}

void Foreman::describe(HostAbout& about) const {
  State& s = *state_;
  about.version = version(), about.at_once = s.places();
  about.cards = s.models.on_gpu() ? s.models.cards() : 0;
  for (const ServedModel& model : s.models.all())
    if (!model.world) about.models.push_back(model.name);
  about.full = s.full;
  if (const auto engine = s.models.opened("")) about.device = engine->device();
  if (!s.options.runs) return void(about.role = "api");
  if (s.memory == 0)
    if (const auto engine = s.models.opened("")) s.memory = most_memory(*engine);
  about.memory_bytes = s.memory;
  State::Jobs jobs;
  {
    const std::lock_guard lock(s.bell->mutex);
    about.loaded = s.holds;
    about.running = static_cast<int>(s.beginning.size());
    jobs = s.running;
  }
  for (const auto& [id, job] : jobs) {
    if (job->ended()) continue;
    about.running += !job->left();  // one that has left the device has also left its place
    Live live = job->live();
    about.jobs[id] = {.stage = std::move(live.stage),
                      .done = live.done,
                      .total = live.total,
                      .eta_seconds = live.eta_seconds};
  }
}

bool RunningJob::hands_on() {
  Presence* const presence = shop_.options.presence;
  if (!presence || row_.kind != "video") return false;
  const queue::WaitingJob job{.id = row_.id, .owner = row_.owner, .model = row_.model, .needs = row_.needs};
  const std::string larger = larger_host(job, presence->self(), presence->hosts());
  if (larger.empty()) return false;
  notice(fmt::format("{} has more memory, so the job is left to it", larger));
  remove_states(folder_);
  // Its files are nobody's now, so that the other host need not wait for this one to go.
  shop_.table.placed(row_.id, shop_.options.worker, "", "");
  stop(Stop::elsewhere);
  return why_ == Stop::elsewhere;
}

}  // namespace tachy::workers
