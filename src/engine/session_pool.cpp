#include "engine/session_pool.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"

namespace tachy {

SessionPool::~SessionPool() {
  {
    const Admission::Lock lock = tenancy_.lock();
    tenancy_.tenant().idle.clear();
    ending_ = true;
  }
  woken_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

SessionPool::Lease SessionPool::to_plan() {
  Admission::Lock lock = tenancy_.lock();
  const auto place = tenancy_.admission().enter_to_plan(lock, tenancy_.tenant());
  try {
    Session& session = take({.tenant = &tenancy_.tenant(), .session = true});
    place->peak = place->own = session.kept_bytes();
    return {*this, session, place};
  } catch (...) {
    tenancy_.admission().leave(lock, tenancy_.tenant(), place);
    throw;
  }
}

Wish SessionPool::wish_of(const VideoPlan& plan, const Precision& precision, Products vae) const {
  const uint64_t base = model_.memory() ? 0 : model_.bundle().read_bytes();
  return {.tenant = &tenancy_.tenant(),
          .plan = &plan,
          .precision = precision,
          .claim = claim_of(plan, precision, base, vae),
          .session = true,
          .layout = plan.keeps ? Session::layout_of(plan) : Session::Layout()};
}

bool SessionPool::fits_beside(const VideoPlan& plan, const Precision& precision, Products vae) {
  const Wish wish = wish_of(plan, precision, vae);
  const Admission::Lock lock = tenancy_.lock();
  return tenancy_.admission().would_enter(wish);
}

SessionPool::Lease SessionPool::to_compute(const VideoPlan& plan, const Precision& precision, Products vae,
                                           const StopFlags& stop) {
  Wish wish = wish_of(plan, precision, vae);
  wish.claim.thread = std::this_thread::get_id();
  Admission::Lock lock = tenancy_.lock();
  const auto place = tenancy_.admission().enter(lock, wish, stop);
  try {
    return {*this, take(wish), place};
  } catch (...) {
    tenancy_.admission().leave(lock, tenancy_.tenant(), place);
    throw;
  }
}

Session& SessionPool::take(const Wish& wish) {
  if (Session* found = tenancy_.admission().tenants().best_idle(wish)) {
    std::erase_if(tenancy_.tenant().idle, [&](const Tenant::Idle& i) { return i.session == found; });
    return *found;
  }
  return all_.emplace_back(model_, model_.take_gpu(), Session::Kind::computing);
}

SessionPool::Clock::duration SessionPool::idle_time() const {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(model_.options().idle_seconds));
}

void SessionPool::give_back(Session& session, Admission::Place claim) {
  std::list<Session> ended;  // destroyed after the lock is given up
  Admission::Lock lock = tenancy_.lock();
  const auto now = Clock::now();
  tenancy_.tenant().idle.push_back({&session, now});
  // If the session keeps nothing, there is nothing to release except a further queue of a GPU.
  const bool worth = session.kept_bytes() > 0 || session.gpu() != model_.gpu();
  if (model_.options().idle_seconds == 0) ended = idle_since(now);
  tenancy_.admission().leave(lock, tenancy_.tenant(), claim);
  if (model_.options().idle_seconds > 0 && worth) watch_idle();
}

// Takes out the sessions that have been idle since `latest` or longer. What they keep is freed at once; the
// caller destroys them.
std::list<Session> SessionPool::idle_since(Clock::time_point latest) {
  std::list<Session> out;
  auto& idle = tenancy_.tenant().idle;
  while (!idle.empty() && idle.front().since <= latest) {
    const auto at = std::ranges::find_if(all_, [&](const Session& s) { return &s == idle.front().session; });
    at->drop();
    out.splice(out.end(), all_, at);
    idle.erase(idle.begin());
  }
  return out;
}

void SessionPool::watch_idle() {
  if (watching_ || ending_) return;
  if (watcher_.joinable()) watcher_.join();  // the thread has announced its end
  try {
    watcher_ = std::thread([this] { end_idle(); });
    watching_ = true;
  } catch (const std::system_error& e) {  // idle sessions then wait until somebody needs their memory
    log_topic("plan", "no thread to give idle sessions back: {}", e.what());
  }
}

// Notices only when it wakes up that a session has been taken meanwhile: waking it for each job would cost
// more.
void SessionPool::end_idle() {
  Admission::Lock lock = tenancy_.lock();
  const auto& idle = tenancy_.tenant().idle;
  while (!ending_ && !idle.empty()) {
    if (std::list<Session> ended = idle_since(Clock::now() - idle_time()); !ended.empty()) {
      log_topic("plan", "{} idle sessions given back", ended.size());
      lock.unlock();
      ended.clear();
      lock.lock();
    } else {
      woken_.wait_until(lock, idle.front().since + idle_time());
    }
  }
  watching_ = false;
}

size_t SessionPool::sessions() {
  const Admission::Lock lock = tenancy_.lock();
  return all_.size();
}

}  // namespace tachy
