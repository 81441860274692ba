#include "workers/running_job.h"

#include <chrono>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "jobs/job_runner.h"
#include "jobs/sidecar.h"
#include "workers/after_run.h"
#include "workers/job_of_row.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kBetweenTries{500};

const char* cause_of(Stop why) {
  switch (why) {
    case Stop::priority:
      return "priority";
    case Stop::world:
      return "world";
    case Stop::elsewhere:
      return "memory";
    case Stop::full:
      return "disk";
    case Stop::shutdown:
      return "shutdown";
    case Stop::pause:
      return "pause";
    case Stop::removed:
      return "deleted";
    case Stop::lost:
      return "lease";
    default:
      return "caller";
  }
}

}  // namespace

RunningJob::RunningJob(const Shop& shop, queue::JobRow row, int card,
                       std::shared_ptr<const PreparedRequest> prepared, std::function<void()> changed)
    : shop_(shop),
      row_(std::move(row)),
      card_(card),
      folder_(shop.options.files, row_.id),
      prepared_(std::move(prepared)),
      on_change_(std::move(changed)),
      kept_late_(row_.wish == queue::Wish::cancel_keeping_frames) {}

RunningJob::~RunningJob() {
  if (thread_.joinable()) thread_.join();
}

void RunningJob::start() {
  thread_ = std::thread([this] { run(); });
}

void RunningJob::stop(Stop why) {
  // Such a job is done soon, and has nothing left to wish for but a cancel.
  if (kept_late_ && why != Stop::shutdown && why <= Stop::keep) return;
  Stop now = why_.load();
  while (now < why && !why_.compare_exchange_weak(now, why)) {
  }
  if (why == Stop::shutdown) patient_ = false;
  if (why == Stop::keep) keep_ = true;
  if (why > Stop::keep) keep_ = false;
  cancel_ = true;
}

bool RunningJob::hold(bool held) {
  if (row_.kind != "video") return false;
  const std::lock_guard lock(mutex_);
  if (hold_ == held) return true;
  const double now = monotonic_seconds();
  if (held)
    held_since_ = now;
  else
    held_seconds_ += now - held_since_;
  hold_ = held;
  if (held && shop_.options.measured)
    shop_.options.measured({{"event", "interrupted"}, {"cause", cause_of(Stop::priority)}});
  return true;
}

double RunningJob::computing_seconds() const {
  const std::lock_guard lock(mutex_);
  return (hold_ ? held_since_ : monotonic_seconds()) - held_seconds_;
}

void RunningJob::run() {
  try {
    make();
  } catch (const Error& e) {
    stopped_or_failed(e.code(), e.message());
  } catch (const std::bad_alloc&) {
    stopped_or_failed(ErrorCode::out_of_memory, "the machine has no memory left for this run");
  } catch (const std::exception& e) {
    stopped_or_failed(ErrorCode::internal, e.what());
  }
  ended_ = true;
  on_change_();
}

void RunningJob::make() {
  begun_ = computing_seconds();
  if (shop_.options.fetch_inputs) shop_.options.fetch_inputs(row_, folder_);
  check(!cancel_, ErrorCode::cancelled, "cancelled");
  if (row_.kind == "join")
    join_job(row_, folder_, &cancel_);
  else
    make_video();
  if (shop_.options.store) shop_.options.store(row_, folder_);
  end(queue::Status::completed, {}, true);
}

void RunningJob::make_video() {
  const ServedModel* const model = shop_.models.find(row_.model);
  check(model && !model->world, ErrorCode::not_found, "`model`: there is no model '{}' here any more",
        row_.model);
  const jobs::JobSpec job = job_of_row(row_, folder_, *model, shop_.options.loras);
  const std::shared_ptr<Engine> engine = shop_.models.open(row_.model, card_);
  const double begin = computing_seconds();
  jobs::JobStore store(&cancel_);
  jobs::JobRunner runner(*engine, store, *this, {.cancel = &cancel_, .hold = &hold_, .keep = &keep_});
  if (!prepared_) prepared_ = std::make_shared<const PreparedRequest>(runner.prepare(job));
  const VideoRequest& filled = prepared_->request();
  const VideoPlan& plan = prepared_->plan();
  const std::string key = Rates::key(row_.model, engine->device());
  size_ = fmt::format("{}x{}", *filled.width, *filled.height);
  previews_ = last_preview_of(folder_);
  {
    const std::lock_guard lock(mutex_);
    meter_.emplace(plan, shop_.rates.of(key), row_.progress);
  }
  wait_for_former();
  had_frames_ = kept_late_ && had_frames();
  const bool finished = kept_late_ && jobs::finished_settings(folder_.video()).is_object();
  if (finished) notice("the video was finished before the server ended");
  const bool made = !finished && runner.run(job, *prepared_);
  if (made) left_device();  // its thumbnail and its row are made while the next job begins
  row_.facts = facts_of(filled, folder_.video());
  make_thumbnail_if_possible(folder_, [this](const std::string& text) { notice(text); });
  if (!made) return;
  // A caller also waits for what comes before and after the run, so the thumbnail counts.
  const double seconds = computing_seconds() - begin;
  learn(key, plan, seconds);
  tell_run(plan, seconds);
}

void RunningJob::stopped_or_failed(ErrorCode code, const std::string& text) {
  if (code == ErrorCode::cancelled && shop_.lease.lost()) stop(Stop::lost);
  if (why_ == Stop::lost) {  // the table says nothing about this run any more
    shop_.reporter.finish(row_.id);
    return measured({{"event", "interrupted"}, {"cause", cause_of(Stop::lost)}});
  }
  if (code == ErrorCode::cancelled) look_at_wish();
  const Stop why = why_.load();
  const bool stopped = code == ErrorCode::cancelled && why != Stop::none;
  if (waits_for_room(code, text)) return give_back(Stop::full);
  device_failed_ = code == ErrorCode::device;
  if (code == ErrorCode::out_of_memory && hands_on()) return give_back(Stop::elsewhere);
  if (stopped && gives_back(why)) return give_back(why);
  std::string message = stopped ? cancelled_error().message : text;
  // A caller of the server cannot do what a front end may do to go on.
  if (const size_t at = going_on_.empty() ? message.npos : message.find(going_on_); at != message.npos)
    message.erase(at, going_on_.size());
  const queue::JobError error =
      job_error(code, message, folder_, shop_.models.find(row_.model), shop_.options.loras);
  if (!stopped) notice(error.message);
  remove_states(folder_);
  end(queue::Status::failed, error, why != Stop::removed);
}

// Somebody may have cancelled the job just when it was interrupted for another reason.
void RunningJob::look_at_wish() try {
  const std::optional<queue::JobRow> row = shop_.table.find(row_.id);
  if (!row) return stop(Stop::removed);
  const bool keeps = row->wish == queue::Wish::cancel_keeping_frames;
  if (row->wish == queue::Wish::cancel || (keeps && why_ != Stop::shutdown && why_ != Stop::keep))
    stop(Stop::cancel);
  if (row->wish == queue::Wish::pause) stop(Stop::pause);
} catch (const Error& e) {
  warn("the table of jobs cannot be read: {}", e.message());
}

void RunningJob::give_back(Stop why) {
  shop_.reporter.finish(row_.id);
  // Whether it is paused then is for the table to say: whoever paused it may have let it go on since.
  if (insist([&] { return shop_.table.give_back(row_.id, shop_.options.worker, false); })) {
    account_for_interruption();
    return measured({{"event", "interrupted"}, {"cause", cause_of(why)}});
  }
  const auto row = shop_.table.find(row_.id);
  if (!row || row->wish == queue::Wish::none || row->wish == queue::Wish::pause) return;
  // The next process finishes it with the frames that it had.
  if (row->wish == queue::Wish::cancel_keeping_frames && why == Stop::shutdown)
    return measured({{"event", "interrupted"}, {"cause", cause_of(why)}});
  stop(Stop::cancel);  // which came meanwhile, and there is nothing more to keep
  remove_states(folder_);
  end(queue::Status::failed, cancelled_error(), true);
}

void RunningJob::left_device() {
  left_ = true;
  on_change_();
}

void RunningJob::end(queue::Status status, const queue::JobError& error, bool told) {
  shop_.reporter.finish(row_.id);
  queue::JobRow row = row_;
  row.status = status, row.error = error, row.ended_ms = shop_.table.now_ms();
  if (status == queue::Status::completed) row.progress = 100;
  row.expires_ms = expiry_of(row.ended_ms, shop_.options.keep_days);
  row.bytes = bytes_of_folder(folder_.path);
  row.usage = used(status == queue::Status::completed);
  std::optional<queue::Webhook> message;
  if (told && shop_.options.message) message = shop_.options.message(row);
  if (!insist([&] { return shop_.table.end(row, shop_.options.worker, message); })) return;
  tell_end(shop_.book, row);
  measured({{"event", "end"},
            {"status", to_string(status)},
            {"code", error.code},
            {"cause", error.code == "cancelled" ? cause_of(why_.load()) : ""}});
}

bool RunningJob::insist(const std::function<bool()>& change) {
  while (true) try {
      return change();
    } catch (const Error& e) {
      warn("the table of jobs cannot be written, which is tried again: {}", e.message());
      // The job is in progress in the table, so the next process takes it up where it is.
      if (!patient_) return false;
      std::this_thread::sleep_for(kBetweenTries);
    }
}

}  // namespace tachy::workers
