// A Foreman among those of other hosts: its lease on the jobs that it has, and the jobs of hosts that are
// gone.
#include "base/log.h"
#include "workers/after_run.h"
#include "workers/foreman_state.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

constexpr double kLooksOfALease = 6;  // how often this host looks for lost ones in that time

}  // namespace

// Without a lease all jobs stop, and a new one begins when they have ended.
bool Foreman::State::keeps_lease(const Jobs& jobs) {
  if (!lease.lost()) return true;
  for (const auto& [id, job] : jobs) job->stop(Stop::lost);
  if (!jobs.empty()) return false;
  lease.begin_again();
  return true;
}

// Only this thread takes jobs. So one that is taken and does not run here was taken by a claim whose answer
// was lost on its way from another machine.
void Foreman::State::put_back(const queue::HeldJob& job) {
  if (table.lease_seconds() == 0 || table.give_back(job.id, options.worker, false)) return;
  std::optional<queue::JobRow> row = table.find(job.id);
  if (!row || row->status != queue::Status::in_progress) return;
  row->status = queue::Status::failed, row->error = cancelled_error(), row->ended_ms = table.now_ms();
  row->expires_ms = expiry_of(row->ended_ms, options.keep_days);
  const auto message = options.message ? options.message(*row) : std::nullopt;
  if (table.end(*row, options.worker, message)) tell_end(book, *row);
}

// Those of other hosts that were not heard of for a while. Whatever ended those hosts is unknown here.
void Foreman::State::recover_lost() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> between(table.lease_seconds() / kLooksOfALease);
  if (table.lease_seconds() == 0 || now - looked_for_lost < between) return;
  looked_for_lost = now;
  take_up(table.recover_lost(), CrashMark::Death::early_kill);
}

// Whatever could not be given back waits for other hosts from now on, and not from the end of the lease.
void Foreman::State::end_lease() {
  lease.stop();
  if (table.lease_seconds() == 0 || !mark || lease.lost()) return;
  try {
    table.recover(options.worker);
  } catch (const Error& e) {
    warn("the lease of this host ends by itself: {}", e.message());
  }
}

}  // namespace tachy::workers
