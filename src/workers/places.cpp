// The places on the cards of this host: on which card a job begins, and who makes way for it there. Without cards the
// processor is the only one.
#include <algorithm>
#include <climits>
#include <numeric>

#include "base/log.h"
#include "workers/foreman_state.h"
#include "workers/job_of_row.h"

namespace tachy::workers {
namespace {

// A GPU that has failed may fail in every job of this process: the others are then better off waiting.
constexpr int kMostDeviceFailures = 2;

}  // namespace

struct Foreman::State::Taken {
  RunningJob* least = nullptr;  // the computing job of the least priority
  RunningJob* held = nullptr;   // the held one of the highest
  int computing = 0;
  bool idle = true;
  bool leaving = false;  // a stopped job is there: its memory and its place are about to be free
};

std::vector<Foreman::State::Taken> Foreman::State::taken_of(const Jobs& jobs) const {
  std::vector<Taken> out(cards.size());
  for (const auto& [id, job] : jobs) {
    if (job->left()) continue;
    Taken& card = out[static_cast<size_t>(job->card())];
    card.idle = false;
    card.leaving |= job->stopped() != Stop::none;
    RunningJob*& best = job->held() ? card.held : card.least;
    const int than = best ? best->row().priority : 0, priority = job->row().priority;
    if (!best || (job->held() ? priority > than : priority < than)) best = job.get();
    card.computing += !job->held();
  }
  return out;
}

bool Foreman::State::world_wants_room() const {
  const std::lock_guard lock(bell->mutex);
  return bell->rooms > 0;
}

// Worlds are opened on the first card.
bool Foreman::State::takes_jobs(int card) const {
  return cards[static_cast<size_t>(card)].failures < kMostDeviceFailures && (card > 0 || !world_wants_room());
}

void Foreman::State::count_failure(int card, bool failed) {
  int& failures = cards[static_cast<size_t>(card)].failures;
  failures = failed ? failures + 1 : 0;
  if (failures != kMostDeviceFailures) return;
  const auto works = [](const Card& one) { return one.failures < kMostDeviceFailures; };
  if (std::ranges::any_of(cards, works))
    return warn("a GPU ({} of {}) has failed in several jobs in a row, and gets no more", card + 1,
                cards.size());
  const std::lock_guard lock(bell->mutex);
  not_ready = "the device has failed in several jobs in a row; look at it, and start the server again";
}

// On a CPU two runs would share its threads, and neither would be done sooner.
int Foreman::State::at_once() const {
  if (options.at_once > 0) return options.at_once;
  return models.on_gpu() ? 2 : 1;
}

// A held job goes on before anything begins that is not more urgent than it.
bool Foreman::State::go_on(const Jobs& jobs, const queue::WaitingJob* next) {
  const std::vector<Taken> taken = taken_of(jobs);
  for (size_t card = 0; card < taken.size(); ++card) {
    RunningJob* const held = taken[card].held;
    if (!held || taken[card].computing >= at_once() || !takes_jobs(static_cast<int>(card))) continue;
    if (next && next->priority > held->row().priority) continue;
    held->hold(false);
    return true;
  }
  return false;
}

std::optional<int> Foreman::State::place_for(const queue::WaitingJob& job, const Jobs& jobs) {
  const std::vector<Taken> taken = taken_of(jobs);
  if (const std::optional<int> card = free_place(job, taken)) return card;
  if (std::ranges::any_of(taken, &Taken::leaving)) return std::nullopt;
  return made_place(job, taken);
}

// An idle card comes before one that is shared, and one that has got in memory what the job needs before another one.
std::optional<int> Foreman::State::free_place(const queue::WaitingJob& job, const std::vector<Taken>& taken) {
  std::vector<int> order(taken.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_partition(
      order, [&](int card) { return cards[static_cast<size_t>(card)].holds == job.needs; });
  std::ranges::stable_partition(order, [&](int card) { return taken[static_cast<size_t>(card)].idle; });
  for (const int card : order) {
    const Taken& there = taken[static_cast<size_t>(card)];
    if (!takes_jobs(card) || there.leaving) continue;
    if (there.idle || (there.computing < at_once() && fits_beside(job.id, card).value_or(false))) return card;
  }
  return std::nullopt;
}

// The running job of the least priority makes way, provided that it is less urgent: it is held where both fit into
// memory, so that it loses nothing, and stopped otherwise.
std::optional<int> Foreman::State::made_place(const queue::WaitingJob& job, const std::vector<Taken>& taken) {
  int card = -1;
  const auto priority_of = [](const Taken& one) { return one.least ? one.least->row().priority : INT_MIN; };
  for (int i = 0; i < static_cast<int>(taken.size()); ++i) {
    const Taken& there = taken[static_cast<size_t>(i)];
    if (!takes_jobs(i) || (there.least && there.least->row().priority >= job.priority)) continue;
    if (card < 0 || priority_of(there) < priority_of(taken[static_cast<size_t>(card)])) card = i;
  }
  if (card < 0) return std::nullopt;
  const std::optional<bool> fits = fits_beside(job.id, card);
  if (!fits) return std::nullopt;  // the bell rings when it is planned
  const auto& [least, held, computing, idle, leaving] = taken[static_cast<size_t>(card)];
  if (*fits && least && least->hold(true)) return card;
  // Where only held jobs are in the way, they would be for ever.
  (least ? least : held)->stop(Stop::priority);
  return std::nullopt;
}

// The engine would let a job wait that does not fit, but then it would keep a place that nobody else could
// use.
std::optional<bool> Foreman::State::fits_beside(const std::string& id, int card) {
  std::string& too_large = cards[static_cast<size_t>(card)].too_large;
  if (id == too_large) return false;
  std::optional<queue::JobRow> row = table.find(id);
  if (!row || row->kind != "video" || !models.find(row->model)) return true;
  const std::shared_ptr<Engine> engine = models.opened(row->model, card);
  const std::shared_ptr<const PreparedRequest> plan = plans.get(id, row->settings);
  if (!engine || !plan) {
    if (ahead->failed(*row)) return true;  // it will fail, and say why
    ahead->want(std::move(*row));
    return std::nullopt;
  }
  if (engine->fits_beside(*plan)) return true;
  too_large = id;
  return false;
}

// The plan is that of the first card's engine, and says for each card of its kind whether the job fits.
void Foreman::State::plan_ahead(const queue::JobRow& row, const std::atomic<bool>& cancel) {
  const std::shared_ptr<Engine> engine = models.open(row.model);
  for (int card = 1; card < models.cards(); ++card) models.open(row.model, card);
  if (plans.get(row.id, row.settings)) return;
  const jobs::JobSpec job = job_of_row(row, {options.files, row.id}, *models.find(row.model), options.loras);
  plans.put(row.id, row.settings,
            std::make_shared<const PreparedRequest>(
                engine->prepare(job.settings.request, &cancel, ReadVideos::when_run)));
}

}  // namespace tachy::workers
