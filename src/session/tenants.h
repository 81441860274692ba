// The models that are open on one device, and what they hold of its memory. This tells what a run may take
// beside the others, whether it fits, and what is released for it if it does not.
//
// A run may take what is free and what these models already hold. The memory that worlds hold is subtracted,
// since worlds stay. Runs end, so they are waited for. What idle sessions keep, and loaded parts that nobody
// holds, are released if somebody needs the memory.
//
// `max_vram` limits the runs of a model, or of all models that share one limit (ModelOptions::shares_vram).
//
// Nothing here has a lock: the caller holds the lock of the device's Admission (admission.h).
#pragma once

#include <chrono>
#include <list>
#include <vector>

#include "base/memory_room.h"
#include "session/claim.h"
#include "session/session.h"

namespace tachy {

// A model's share of a device.
struct Tenant {
  using Clock = std::chrono::steady_clock;
  struct Idle {
    Session* session = nullptr;
    Clock::time_point since;
  };

  Model* model = nullptr;
  std::list<Claim> claims;  // claims of everyone who plans, computes, or has a world open
  std::vector<Idle> idle;   // sessions without a job; the last one that became idle is at the end
};

// A wish describes what a run needs to begin.
struct Wish {
  Tenant* tenant = nullptr;
  const VideoPlan* plan = nullptr;
  Precision precision;
  Claim claim;
  bool session = false;    // whether it takes an idle session, if possible one of this layout
  Session::Layout layout;  // empty: any
};

// The memory that a run may take on a device if no other job runs, and the limit that sets it, for messages.
struct Budget {
  uint64_t bytes = 0;
  std::string why;
};
// `free` is the memory for all of a model's runs. max_vram is the limit for them, or 0, and `stays` is how much
// of that limit is held by open worlds. `libraries` is what a run takes beside its plan.
Budget budget_within(uint64_t free, uint64_t max_vram, uint64_t stays, uint64_t libraries,
                     const std::string& device);

class Tenants {
 public:
  void add(Tenant& tenant) { all_.push_back(&tenant); }
  void remove(Tenant& tenant) { std::erase(all_, &tenant); }

  // Returns the memory that all runs together may take on a device other than the host.
  uint64_t device_room() const;
  Budget budget(const Tenant& tenant, uint64_t libraries) const;

  // Throws out_of_memory, with both numbers, if the run would not fit even if no other job ran. Without a
  // claim, it is not known what the run shares with worlds.
  void check_alone(const Tenant& tenant, const VideoPlan& plan, const Claim* claim);
  // Says whether the run may begin beside those that are under way. If not, everything that can be released
  // for it has been released.
  bool make_room(const Wish& wish);
  // Says whether make_room would make enough, and releases nothing. A GPU frees memory only when it has done what is
  // queued, so that every piece would take as long as a piece of the run that is under way.
  bool would_fit(const Wish& wish) { return fits(wish, Idle::goes); }
  Session* best_idle(const Wish& wish) const;

  bool any(Claim::Of of) const;
  size_t runs() const;  // claims of jobs and plans
  // Returns the tenant whose job runs in this thread, or null.
  const Tenant* computing_here() const;

 private:
  // The host's memory. While jobs run, the value from before them is kept, since what they hold is not free.
  struct Room {
    MemoryRoom host;
    uint64_t held = 0;  // bytes that these models hold
  };
  const Room& room();
  Budget budget_now(const Tenant& tenant, const VideoPlan& plan) const;
  uint64_t alone(const Tenant& tenant, const Claim& claim) const;
  void check_host_alone(const Tenant& tenant, const VideoPlan& plan, const Claim* claim);
  uint64_t kept_by_worlds() const;
  // Returns what open worlds hold of the limit under which the tenant's runs are.
  uint64_t kept_under_limit(const Tenant& tenant) const;
  enum class Idle { stays, goes };
  // Says whether the run fits beside the others, with or without what is idle.
  bool fits(const Wish& wish, Idle idle = Idle::stays);
  bool fits_device(const Wish& wish, uint64_t limited, uint64_t all, uint64_t pinned);

  std::vector<Tenant*> all_;
  Room room_;
};

}  // namespace tachy
