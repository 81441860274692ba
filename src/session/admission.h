// Decides which run may begin on a device. There is one admission for the host's memory and one for each GPU;
// all models of this process that are open on the device share it.
//
// The rule is first come, first served. Whoever waits is let in before all who came later, even if a later
// one needs less and would fit at once. Nobody overtakes, so a large job begins as soon as the memory it
// needs is there, however many small ones arrive meanwhile. A job that is held keeps its place in the line, but
// lets others pass until its hold ends. Two kinds do not stand in line: a job that is
// begun in a callback of a running job, which waits for it (it is let in if it fits, and refused if it would
// have to wait), and planning, which takes hardly any memory.
//
// Those who wait are woken when something ends. They look from time to time only if there is a flag to watch, which
// nobody notifies them of.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/stop_flags.h"
#include "session/tenants.h"

namespace tachy {

class Admission {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Place = std::list<Claim>::iterator;

  // Returns the admission of a GPU or of a test's device or, if both are null, of the host.
  static std::shared_ptr<Admission> of(const cuda::Gpu* gpu, const DeviceMemory* memory);

  // This lock guards all that tenants have, including their lists of claims and idle sessions.
  Lock lock() { return Lock(mutex_); }
  Tenants& tenants() { return tenants_; }

  // Waits until the wish's run may begin, and records its claim. Throws out_of_memory if it would not fit
  // even alone, cancelled, and unsupported if it would have to wait for the run in whose callback it is
  // called.
  Place enter(Lock& lock, const Wish& wish, const StopFlags& stop);
  // Says whether enter() would let the wish's run in without waiting. The caller holds the lock.
  bool would_enter(const Wish& wish);
  // Enters for planning. Waits only if one session at a time may compute on the model.
  Place enter_to_plan(Lock& lock, Tenant& tenant);
  void leave(Lock& lock, Tenant& tenant, Place place);
  // Marks a world whose memory is allocated: from here on nobody waits for it, unless the model's runs do.
  void settle(Lock& lock, const Tenant& tenant, Place place);

  size_t waiting();  // how many stand in line

 private:
  class InLine;
  void wait_turn(Lock& lock, const Tenant& tenant, const StopFlags& stop, const std::function<bool()>& may,
                 uint64_t bytes);

  std::mutex mutex_;
  std::condition_variable changed_;
  Tenants tenants_;
  std::list<StopFlags> line_;  // the flags of those who wait, in order of arrival
};

// A model's place among the models of its device, for as long as it is open.
class Tenancy {
 public:
  explicit Tenancy(Model& model);
  ~Tenancy();
  Tenancy(const Tenancy&) = delete;
  Tenancy& operator=(const Tenancy&) = delete;
  Admission& admission() const { return *admission_; }
  Tenant& tenant() { return tenant_; }
  Admission::Lock lock() const { return admission_->lock(); }
  // Returns what one run may take on a device other than the host (Tenants::budget).
  Budget budget(uint64_t libraries) const;
  void check_memory(const VideoPlan& plan) const;  // Tenants::check_alone

 private:
  std::shared_ptr<Admission> admission_;
  Tenant tenant_;
};

}  // namespace tachy
