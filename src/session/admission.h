// Who may begin on a device: one admission for the host's memory and one for each GPU, which all models of this process that
// are open there draw on.
//
// The rule: first come, first served. Whoever waits is let in before all who came later, also where a later one needs less
// and would fit at once: nobody passes, so that a large job begins as soon as what it needs is there, however many small
// ones come meanwhile. Two do not stand in line: a job that is begun in a callback of a running one, which that one waits for (it
// is let in where it fits, and refused where it would have to wait), and planning, which takes no memory to speak of.
//
// Those who wait are woken when something ends. Only who has a `cancel` to watch looks at it from time to time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>

#include "session/tenants.h"

namespace tachy {

class Admission {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Place = std::list<Claim>::iterator;

  // That of a GPU; of a device of tests; null for both: of the host.
  static std::shared_ptr<Admission> of(const cuda::Gpu* gpu, const DeviceMemory* memory);

  // Under this lock stands all that tenants have, their lists of claims and idle sessions among it.
  Lock lock() { return Lock(mutex_); }
  Tenants& tenants() { return tenants_; }

  // Waits until the wish's run may begin, and writes down what it claims. Throws out_of_memory where it would not fit alone,
  // cancelled, and unsupported where it would have to wait for a run whose callback it is called in.
  Place enter(Lock& lock, const Wish& wish, const std::atomic<bool>* cancel);
  // To plan. Waits only for a model of which one session may compute at a time.
  Place enter_to_plan(Lock& lock, Tenant& tenant);
  void leave(Lock& lock, Tenant& tenant, Place place);
  // A world whose memory is there: from here on nobody waits for it.
  void settle(Lock& lock, Place place);

  size_t waiting();  // how many stand in line

 private:
  class InLine;
  void wait_turn(Lock& lock, const Tenant& tenant, const std::atomic<bool>* cancel,
                 const std::function<bool()>& may, uint64_t bytes);

  std::mutex mutex_;
  std::condition_variable changed_;
  Tenants tenants_;
  std::list<std::monostate> line_;  // in the order of their coming
};

// A model's place among those of its device, for as long as it is open.
class Tenancy {
 public:
  explicit Tenancy(Model& model);
  ~Tenancy();
  Tenancy(const Tenancy&) = delete;
  Tenancy& operator=(const Tenancy&) = delete;
  Admission& admission() const { return *admission_; }
  Tenant& tenant() { return tenant_; }
  Admission::Lock lock() const { return admission_->lock(); }
  // On a device other than the host: what one run may take (Tenants::budget).
  Budget budget(uint64_t libraries) const;
  void check_memory(const VideoPlan& plan) const;  // Tenants::check_alone

 private:
  std::shared_ptr<Admission> admission_;
  Tenant tenant_;
};

}  // namespace tachy
