#include "workers/foreman.h"

#include <algorithm>

#include "base/log.h"
#include "workers/after_run.h"
#include "workers/foreman_state.h"
#include "workers/placement.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

constexpr size_t kMostPlans = 64;
constexpr std::chrono::seconds kMostWait{15};

}  // namespace

void Plans::put(const std::string& id, std::string settings,
                std::shared_ptr<const PreparedRequest> prepared) {
  drop(id);
  if (!prepared) return;
  const std::lock_guard lock(mutex_);
  plans_.push_back({id, std::move(settings), std::move(prepared)});
  if (plans_.size() > kMostPlans) plans_.pop_front();
}

std::shared_ptr<const PreparedRequest> Plans::get(const std::string& id, const std::string& settings) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(plans_, id, &Plan::id);
  return found != plans_.end() && found->settings == settings ? found->prepared : nullptr;
}

void Plans::drop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(plans_, [&](const Plan& plan) { return plan.id == id; });
}

Foreman::State::State(ForemanOptions given, queue::JobTable& jobs, queue::EventBook& events, Models& served)
    : options(std::move(given)),
      table(jobs),
      book(events),
      models(served),
      rates((options.own.empty() ? options.files : options.own) / "rates.json"),
      reporter(table, book, options.worker),
      lease(table, options.worker),
      shop{options, table, book, models, rates, reporter, lease},
      turns(table) {}

Foreman::Foreman(ForemanOptions options, queue::JobTable& table, queue::EventBook& book, Models& models)
    : state_(std::make_unique<State>(std::move(options), table, book, models)) {}

Foreman::~Foreman() { stop(); }

void Foreman::start() {
  State& s = *state_;
  if (!s.options.runs) {
    s.heard = s.table.listen([ring = s.bell] { ring->ring(); });
    s.opener = std::thread([this] { state_->open_default(); });
    return;
  }
  s.mark.emplace(s.options.own.empty() ? s.options.files : s.options.own);
  state_->recover();
  state_->lease.start([ring = state_->bell] { ring->ring(); });
  state_->heard = state_->table.listen([ring = state_->bell] { ring->ring(); });
  state_->opener = std::thread([this] { state_->open_default(); });
  state_->ahead.emplace(
      [this](const queue::JobRow& row, const std::atomic<bool>& cancel) { state_->plan_ahead(row, cancel); },
      [ring = state_->bell] { ring->ring(); });
  state_->errands.emplace();
  state_->dispatcher = std::thread([this] { state_->dispatch(); });
}

// The jobs that an earlier process had go on where they were, unless it was they that ended the process.
void Foreman::State::recover() { take_up(table.recover(options.worker), mark->death()); }

void Foreman::State::take_up(std::vector<queue::JobRow> rows, CrashMark::Death death) {
  for (queue::JobRow& row : rows) {
    if (row.wish == queue::Wish::cancel) {  // one whose frames are to be kept is queued with its wish
      row.status = queue::Status::failed, row.error = cancelled_error();
      const auto message = options.message ? options.message(row) : std::nullopt;
      if (const auto ended = table.wish(row.id, queue::Wish::cancel, message)) tell_end(book, *ended);
    } else if (crashed_too_often(row, {options.files, row.id}, death)) {
      fail_crashed(std::move(row));
    }
  }
}

void Foreman::State::fail_crashed(queue::JobRow row) {
  std::optional<queue::JobRow> claimed = table.claim(row.id, options.worker);
  if (!claimed) return;
  claimed->status = queue::Status::failed, claimed->ended_ms = table.now_ms();
  claimed->expires_ms = expiry_of(claimed->ended_ms, options.keep_days);
  claimed->error = {"crashed", "the server ended unexpectedly each time while it was making this video"};
  const auto message = options.message ? options.message(*claimed) : std::nullopt;
  if (table.end(*claimed, options.worker, message)) tell_end(book, *claimed);
}

void Foreman::State::open_default() {
  std::string why;
  try {
    models.open("")->fingerprint();  // which videos carry: no job pays for it
  } catch (const std::exception& e) {
    why = std::string("the default model cannot be opened: ") + e.what();
    warn("{}", why);
  }
  const std::lock_guard lock(bell->mutex);
  not_ready = why;
}

bool Foreman::ready(std::string* why) const {
  const std::lock_guard lock(state_->bell->mutex);
  std::string reason = state_->not_ready;
  if (!state_->lease.reachable()) reason = "the table of jobs cannot be reached";
  if (state_->bell->stopping) reason = "the server is going down";
  if (why) *why = reason;
  return reason.empty();
}

void Foreman::wake() { state_->bell->ring(); }

void Foreman::remember(const std::string& id, std::shared_ptr<const PreparedRequest> prepared) {
  // Such a plan was made when its videos lay elsewhere, and they are read when it runs.
  const VideoRequest* const request = prepared ? &prepared->request() : nullptr;
  if (request && (request->video || request->control_video || request->mask_video)) return;
  if (const std::optional<queue::JobRow> row = state_->table.find(id))
    state_->plans.put(id, row->settings, std::move(prepared));
}

bool Foreman::State::gone(const std::string& id) const {
  if (beginning.contains(id)) return false;
  const auto found = running.find(id);
  return found == running.end() || found->second->ended();
}

void Foreman::stop_job(const std::string& id) {
  State& s = *state_;
  std::unique_lock lock(s.bell->mutex);
  while (!s.gone(id)) {
    if (const auto found = s.running.find(id); found != s.running.end()) found->second->stop(Stop::removed);
    s.bell->rung.wait_for(lock, std::chrono::milliseconds(50));
  }
  s.plans.drop(id);
  if (!s.options.presence) return;
  lock.unlock();  // another host may have it: whoever called has wished it cancelled
  const auto until = std::chrono::steady_clock::now() + kMostWait;
  while (std::chrono::steady_clock::now() < until) {
    const std::optional<queue::JobRow> row = s.table.find(id);
    if (!row || row->status != queue::Status::in_progress) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::shared_ptr<void> Foreman::make_room() {
  const std::shared_ptr<Bell> bell = state_->bell;
  {
    const std::lock_guard lock(bell->mutex);
    ++bell->rooms;
  }
  std::shared_ptr<void> handle(static_cast<void*>(bell.get()), [bell](void*) {
    {
      const std::lock_guard lock(bell->mutex);
      --bell->rooms;
    }
    bell->ring();
  });
  bell->ring();
  std::unique_lock lock(bell->mutex);
  bell->rung.wait_for(lock, kMostWait, [&] {
    const auto begins = [](const auto& job) { return job.second == 0; };
    const auto is_there = [](const auto& job) { return job.second->card() == 0 && !job.second->ended(); };
    return bell->stopping || (std::ranges::none_of(state_->beginning, begins) &&
                              std::ranges::none_of(state_->running, is_there));
  });
  return handle;
}

void Foreman::State::stop() {
  {
    const std::lock_guard lock(bell->mutex);
    bell->stopping = true;
  }
  bell->ring();
  if (dispatcher.joinable()) dispatcher.join();
  ahead.reset();
  errands.reset();
  for (const auto& [id, job] : jobs_now()) job->stop(Stop::shutdown);
  Jobs last;
  {
    const std::lock_guard lock(bell->mutex);
    last.swap(running);
  }
  last.clear();  // waits for their threads
  heard.reset();
  end_lease();
  if (opener.joinable()) opener.join();
  mark.reset();
}

void Foreman::stop() { state_->stop(); }

}  // namespace tachy::workers
