#include "session/tenants.h"

#include <algorithm>

#include "base/env.h"
#include "request/stage_plan.h"
#include "session/tenant_bytes.h"
#include "tensor/streaming_memory.h"

namespace tachy {
namespace {

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

uint64_t libraries_of(const Tenant& t, const VideoPlan& plan) {
  return t.model->gpu() ? kGpuLibraryBytes + plan.graph_bytes : 0;
}

// Says whether the limit of `one` counts what `other` holds.
bool under_one_limit(const Tenant& one, const Tenant& other) {
  return &one == &other || (one.model->options().shares_vram && other.model->options().shares_vram);
}

void drop_parts(const Tenant& t, const Claim* more) {
  const std::set<PartKey> wanted = wanted_parts(t, more);
  t.model->parts().drop_idle([&](const PartKey& key) { return !wanted.contains(key); });
}

void drop_sessions(const Tenant& t, const Session* mine) {
  for (const Tenant::Idle& i : t.idle)
    if (i.session != mine) i.session->drop();
}

}  // namespace

Budget budget_within(uint64_t free, uint64_t max_vram, uint64_t stays, uint64_t libraries,
                     const std::string& device) {
  const bool limited = max_vram > 0 && less(max_vram, stays) < free;
  const uint64_t may = limited ? less(max_vram, stays) : free;
  return {less(may, libraries), limited ? fmt::format("`max_vram` {}", human_bytes(max_vram))
                                        : fmt::format("{} free on {}", human_bytes(free), device)};
}

uint64_t Tenants::kept_by_worlds() const {
  uint64_t total = 0;
  for (const Tenant* t : all_) total += bytes_of_worlds(*t);
  return total;
}

uint64_t Tenants::kept_under_limit(const Tenant& tenant) const {
  uint64_t total = 0;
  for (const Tenant* t : all_)
    if (under_one_limit(tenant, *t)) total += bytes_of_worlds(*t);
  return total;
}

uint64_t Tenants::device_room() const {
  const Model& first = *all_.front()->model;
  uint64_t room = StreamingMemory::of(first.memory())->free_bytes();
  // Each queue of a GPU counts its own allocations; a test's device counts those of all sessions.
  if (!first.gpu()) room += first.memory()->live_bytes();
  for (const Tenant* t : all_) room += t->model->live_bytes();
  return less(room, kept_by_worlds());
}

Budget Tenants::budget(const Tenant& t, uint64_t libraries) const {
  return budget_within(device_room(), t.model->options().max_vram, kept_under_limit(t), libraries,
                       t.model->gpu() ? t.model->gpu()->info().name : "it");
}

// Returns the planned budget, or a smaller one if a world was opened since. Libraries may have been loaded by
// now, so what they take is not subtracted twice.
Budget Tenants::budget_now(const Tenant& t, const VideoPlan& plan) const {
  if (any(Claim::Of::world))
    if (Budget now = budget(t, 0); now.bytes < plan.budget_bytes) return now;
  return {plan.budget_bytes, plan.budget};
}

bool Tenants::any(Claim::Of of) const {
  return std::ranges::any_of(all_, [&](const Tenant* t) {
    return std::ranges::any_of(t->claims, [&](const Claim& c) { return c.of == of; });
  });
}

size_t Tenants::runs() const {
  size_t count = 0;
  for (const Tenant* t : all_)
    count += static_cast<size_t>(
        std::ranges::count_if(t->claims, [](const Claim& c) { return c.of != Claim::Of::world; }));
  return count;
}

const Tenant* Tenants::computing_here() const {
  const auto me = std::this_thread::get_id();
  for (const Tenant* t : all_)
    for (const Claim& c : t->claims)
      if (c.of == Claim::Of::job && c.thread == me) return t;
  return nullptr;
}

Session* Tenants::best_idle(const Wish& wish) const {
  const auto& idle = wish.tenant->idle;
  if (!wish.session || idle.empty()) return nullptr;
  for (const Tenant::Idle& i : idle)
    if (i.session->layout() == wish.layout) return i.session;
  return idle.back().session;
}

const Tenants::Room& Tenants::room() {
  if (any(Claim::Of::job)) return room_;
  int threads = 0;
  room_.held = 0;
  for (const Tenant* t : all_) {
    threads += t->model->threads();
    room_.held += t->model->bundle().read_bytes() + t->model->parts().held_bytes() + idle_bytes(*t, nullptr);
    for (const Claim& c : t->claims) room_.held += c.own;
  }
  room_.host = memory_room(std::max(threads, 1));
  return room_;
}

bool Tenants::fits(const Wish& wish, Idle idle) {
  const Session* const mine = best_idle(wish);
  uint64_t limited = 0, all = 0, read = 0, pinned = wish.claim.host;
  for (const Tenant* t : all_) {
    const bool its = t == wish.tenant;
    const std::set<PartKey> wanted = wanted_parts(*t, its ? claim_that_holds(wish) : nullptr);
    const uint64_t bytes = bytes_of_runs(*t, its ? &wish.claim : nullptr, its ? mine : nullptr,
                                         idle == Idle::goes ? &wanted : nullptr);
    if (under_one_limit(*wish.tenant, *t)) limited += bytes;
    all += bytes, read += t->model->bundle().read_bytes();
    for (const Claim& c : t->claims) pinned += c.host;
  }
  if (wish.tenant->model->memory()) return fits_device(wish, limited, all, pinned);
  const Room& there = room();
  const uint64_t host = less(there.host.bytes, kLibraryBytes);
  return host > UINT64_MAX - there.held || read + kept_by_worlds() + all <= host + there.held;
}

// `limited` has the bytes of the models that are under the run's limit, `all` has those of all models on the
// device.
bool Tenants::fits_device(const Wish& wish, uint64_t limited, uint64_t all, uint64_t pinned) {
  const uint64_t budget = budget_now(*wish.tenant, *wish.plan).bytes;
  if (limited > budget) return false;
  if (runs() > 0 && pinned > less(room().host.bytes, kLibraryBytes)) return false;
  const bool worlds = any(Claim::Of::world);
  if (all_.size() == 1 && !worlds) return true;
  // Libraries that are loaded by now may have been part of the free memory when the run was planned, so the
  // figure of that time counts, too.
  const uint64_t there = device_room(), libraries = libraries_of(*wish.tenant, *wish.plan);
  return all <= std::max(budget, less(there, libraries)) && (!worlds || all <= there);
}

// Releases first what is of no use to this model's runs, then what its idle sessions keep, then both for
// other models.
bool Tenants::make_room(const Wish& wish) {
  const Tenant& own = *wish.tenant;
  const Claim* const holds = claim_that_holds(wish);
  const std::set<PartKey> wanted = wanted_parts(own, holds);
  own.model->parts().drop_idle(
      [&](const PartKey& key) { return key.made_for(wish.precision) && !wanted.contains(key); });
  if (fits(wish)) return true;
  drop_parts(own, holds);
  if (fits(wish)) return true;
  drop_sessions(own, best_idle(wish));
  if (fits(wish)) return true;
  for (const auto& drop : {drop_sessions, +[](const Tenant&t, const Session*) { drop_parts(t, nullptr); }})
    for (const Tenant* t : all_) {
      if (t == &own) continue;
      drop(*t, nullptr);
      if (fits(wish)) return true;
    }
  return false;
}

// Returns what the run adds to the memory that its model's worlds hold.
uint64_t Tenants::alone(const Tenant& t, const Claim& claim) const {
  return less(bytes_together(worlds_of(t, &claim), nothing_kept), bytes_of_worlds(t));
}

void Tenants::check_alone(const Tenant& t, const VideoPlan& plan, const Claim* claim) {
  if (!t.model->memory()) return check_host_alone(t, plan, claim);
  const auto& most = *std::max_element(plan.stages.begin(), plan.stages.end(), [&](auto& a, auto& b) {
    return bytes_of(plan, a) < bytes_of(plan, b);
  });
  const uint64_t libraries = libraries_of(t, plan), need = plan.peak_bytes + libraries;
  const Budget budget = budget_now(t, plan);
  // A larger `max_vram` helps only where it is the limit.
  const std::string larger = budget.why.starts_with("`max_vram`")
                                 ? fmt::format("`max_vram` {}MiB or ", (need >> 20) + 1)
                                 : std::string();
  const std::string smaller = plan.would_fit.empty() ? "a smaller size" : plan.would_fit;
  check((claim ? alone(t, *claim) : plan.peak_bytes) <= budget.bytes, ErrorCode::out_of_memory,
        "this run needs {} of GPU memory ({} bytes{}; the most in the stage '{}'{}), but {} leaves {}; "
        "{}{} would fit",
        human_bytes(need), need,
        libraries ? fmt::format(", about {} of them for libraries", human_bytes(libraries)) : "", most.name,
        most.streamed ? fmt::format(", with all its {} blocks in host memory", most.blocks) : "", budget.why,
        human_bytes(budget.bytes), larger, smaller);
  const uint64_t pinned = plan.host_bytes;
  const MemoryRoom& host = room().host;
  check(pinned + kLibraryBytes <= host.bytes, ErrorCode::out_of_memory,
        "blocks that do not fit the GPU need {} of host memory ({} bytes), but {} leaves {}; a larger "
        "`max_vram`, a smaller size or fewer `frames` need less (see `plan`)",
        human_bytes(pinned), pinned, host.limit, human_bytes(host.bytes));
}

// Memory that the models already hold, including their worlds, is not available.
void Tenants::check_host_alone(const Tenant& t, const VideoPlan& plan, const Claim* claim) {
  const Room& there = room();
  uint64_t total = kept_by_worlds() + (claim ? alone(t, *claim) : plan.peak_bytes);
  for (const Tenant* other : all_)
    if (claim || other != &t) total += other->model->bundle().read_bytes();
  const uint64_t need = less(total, there.held);
  check(need + kLibraryBytes <= there.host.bytes, ErrorCode::out_of_memory,
        "this run needs {} of memory ({} bytes) and about {} for libraries, but {} leaves {}; a smaller "
        "size, fewer `frames` or `weights` mapped need less (see `plan`)",
        human_bytes(need), need, human_bytes(kLibraryBytes), there.host.limit, human_bytes(there.host.bytes));
}

}  // namespace tachy
