#include "engine/session_pool.h"

#include <algorithm>
#include <chrono>

#include "base/env.h"
#include "base/log.h"
#include "engine/memory_plan.h"

namespace tachy {

SessionPool::Lease SessionPool::to_plan() {
  std::unique_lock lock(mutex_);
  while (model_.one_at_a_time() && !running_.empty()) wait(lock);
  Session& session = take({});
  running_.push_back({.peak = session.kept_bytes(), .own = session.kept_bytes()});
  return {*this, session, std::prev(running_.end())};
}

SessionPool::Lease SessionPool::to_compute(const VideoPlan& plan, const Precision& precision, Products vae,
                                           const std::atomic<bool>* cancel) {
  const uint64_t base = model_.memory() ? 0 : model_.bundle().read_bytes();
  Claim claim = claim_of(plan, precision, base, vae);
  claim.thread = std::this_thread::get_id();
  const Session::Layout wanted = plan.keeps ? Session::layout_of(plan) : Session::Layout();
  std::unique_lock lock(mutex_);
  check_alone(plan, room());
  for (bool waited = false;; waited = true) {
    const bool may = running_.empty() || !model_.one_at_a_time();
    if (may && make_room(plan, precision, claim, best_idle(wanted))) break;
    if (running_.empty()) break;  // it fits alone, and nothing is left to drop
    if (!waited)
      log_topic("plan", "waiting with {} beside {} jobs", human_bytes(claim.peak), running_.size());
    wait(lock);
    check(!cancel || !cancel->load(), ErrorCode::cancelled, "cancelled");
  }
  Session& session = take(wanted);
  running_.push_back(std::move(claim));
  return {*this, session, std::prev(running_.end())};
}

void SessionPool::wait(std::unique_lock<std::mutex>& lock) {
  const auto me = std::this_thread::get_id();
  const bool mine =
      std::any_of(running_.begin(), running_.end(), [&](const Claim& c) { return c.thread == me; });
  check(!mine, ErrorCode::unsupported,
        "this was called in a callback of a run of the same model, and would have to wait for that run");
  changed_.wait_for(lock, std::chrono::milliseconds(50));
}

Session* SessionPool::best_idle(const Session::Layout& wanted) const {
  for (Session* s : idle_)
    if (s->layout() == wanted) return s;
  return idle_.empty() ? nullptr : idle_.back();
}

Session& SessionPool::take(const Session::Layout& wanted) {
  if (Session* found = best_idle(wanted)) {
    std::erase(idle_, found);
    return *found;
  }
  auto gpu = all_.empty() ? model_.first_gpu() : model_.another_gpu();
  return all_.emplace_back(model_, std::move(gpu), Session::Kind::computing);
}

void SessionPool::give_back(Session& session, std::list<Claim>::iterator claim) {
  const std::lock_guard lock(mutex_);
  running_.erase(claim);
  idle_.push_back(&session);
  changed_.notify_all();
}

uint64_t SessionPool::idle_bytes(const Session* except) const {
  uint64_t total = 0;
  for (const Session* s : idle_)
    if (s != except) total += s->kept_bytes();
  return total;
}

SessionPool::Room SessionPool::room() const {
  uint64_t planning = 0;
  for (const Claim& c : running_) {
    if (c.thread != std::thread::id()) return room_;
    planning += c.own;
  }
  room_ = {memory_room(model_.threads()),
           model_.bundle().read_bytes() + model_.parts().held_bytes() + idle_bytes(nullptr) + planning};
  return room_;
}

// Whether the job fits beside those that run.
bool SessionPool::fits(const VideoPlan& plan, const Claim& claim, const Session* mine) const {
  std::vector<Claim> claims(running_.begin(), running_.end());
  claims.push_back(claim);
  const uint64_t together = idle_bytes(mine) + bytes_together(claims, [&](const std::set<PartKey>& except) {
                              return model_.parts().idle_bytes(except);
                            });
  const Room there = room();
  const uint64_t host = there.host.bytes > kLibraryBytes ? there.host.bytes - kLibraryBytes : 0;
  if (!model_.memory()) {
    const uint64_t held = there.held - model_.bundle().read_bytes();
    return host > UINT64_MAX - held || together <= host + held;
  }
  uint64_t pinned = 0;
  for (const Claim& c : claims) pinned += c.host;
  return together <= plan.budget_bytes && (running_.empty() || pinned <= host);
}

// mine: the idle session that the job would get.
bool SessionPool::make_room(const VideoPlan& plan, const Precision& precision, const Claim& claim,
                            const Session* mine) {
  std::vector<Claim> claims(running_.begin(), running_.end());
  if (plan.keeps) claims.push_back(claim);
  const std::set<PartKey> wanted = parts_of(claims);
  model_.parts().drop_idle(
      [&](const PartKey& key) { return key.made_for(precision) && !wanted.contains(key); });
  if (fits(plan, claim, mine)) return true;
  model_.parts().drop_idle([&](const PartKey& key) { return !wanted.contains(key); });
  if (fits(plan, claim, mine)) return true;
  for (Session* s : idle_)
    if (s != mine) s->drop();
  return fits(plan, claim, mine);
}

void SessionPool::check_memory(const VideoPlan& plan) const {
  const std::lock_guard lock(mutex_);
  check_alone(plan, room());
}

void SessionPool::check_alone(const VideoPlan& plan, const Room& room) const {
  if (!model_.memory()) return check_host_alone(plan, room);
  const auto& most = *std::max_element(plan.stages.begin(), plan.stages.end(), [&](auto& a, auto& b) {
    return bytes_of(plan, a) < bytes_of(plan, b);
  });
  const uint64_t libraries = model_.gpu() ? kGpuLibraryBytes + plan.graph_bytes : 0;
  const uint64_t need = plan.peak_bytes + libraries;
  // A larger `max_vram` helps only where it is the limit.
  const std::string larger = plan.budget.starts_with("`max_vram`")
                                 ? fmt::format("`max_vram` {}MiB or ", (need >> 20) + 1)
                                 : std::string();
  check(plan.peak_bytes <= plan.budget_bytes, ErrorCode::out_of_memory,
        "this run needs {} of GPU memory ({} bytes{}; the most in the stage '{}'{}), but {} leaves {}; "
        "{}{} would fit",
        human_bytes(need), need,
        libraries ? fmt::format(", about {} of them for libraries", human_bytes(libraries)) : "", most.name,
        most.streamed ? fmt::format(", with all its {} blocks in host memory", most.blocks) : "", plan.budget,
        human_bytes(plan.budget_bytes), larger, plan.would_fit);
  const uint64_t pinned = plan.host_bytes;
  check(pinned + kLibraryBytes <= room.host.bytes, ErrorCode::out_of_memory,
        "blocks that do not fit the GPU need {} of host memory ({} bytes), but {} leaves {}; a larger "
        "`max_vram`, a smaller size or fewer `frames` need less (see `plan`)",
        human_bytes(pinned), pinned, room.host.limit, human_bytes(room.host.bytes));
}

// What the model already holds is part of the plan and already taken.
void SessionPool::check_host_alone(const VideoPlan& plan, const Room& room) const {
  const uint64_t need = plan.peak_bytes > room.held ? plan.peak_bytes - room.held : 0;
  check(need + kLibraryBytes <= room.host.bytes, ErrorCode::out_of_memory,
        "this run needs {} of memory ({} bytes) and about {} for libraries, but {} leaves {}; a smaller "
        "size, fewer `frames` or `weights` mapped need less (see `plan`)",
        human_bytes(need), need, human_bytes(kLibraryBytes), room.host.limit, human_bytes(room.host.bytes));
}

}  // namespace tachy
