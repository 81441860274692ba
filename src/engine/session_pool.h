// The sessions of a model, in which its jobs compute. The device's Admission (session/admission.h), which all
// models there share, decides when they may. When a job begins, kept parts that it does not count on are
// released, so that its plan is true. If memory is short, three things are released in turn: parts for other
// ways of computing, what idle sessions keep, and what other models keep.
#pragma once

#include <condition_variable>
#include <list>
#include <thread>

#include "session/admission.h"

namespace tachy {

class SessionPool {
 public:
  explicit SessionPool(Model& model) : model_(model), tenancy_(model.tenancy()) {}
  ~SessionPool();
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  // A session that nobody else uses while the lease lives.
  class Lease {
   public:
    Lease(SessionPool& pool, Session& session, Admission::Place claim)
        : pool_(pool), session_(session), claim_(claim) {}
    ~Lease() { pool_.give_back(session_, claim_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Session& session() const { return session_; }

   private:
    SessionPool& pool_;
    Session& session_;
    Admission::Place claim_;
  };

  // Leases a session for planning on a GPU: only one thread at a time may use the states of its libraries.
  Lease to_plan();
  // Leases a session for a job. Throws out_of_memory if it would not fit alone, and cancelled.
  Lease to_compute(const VideoPlan& plan, const Precision& precision, Products vae, const StopFlags& stop);

  // Throws out_of_memory, with both numbers, if the plan needs more than this process may take.
  void check_memory(const VideoPlan& plan) const { tenancy_.check_memory(plan); }
  // Says whether a job of this plan would be let in at once now. What idle sessions keep is released for it if that
  // is needed.
  bool fits_beside(const VideoPlan& plan, const Precision& precision, Products vae);

  size_t sessions();  // number of open sessions

 private:
  using Clock = Tenant::Clock;
  // For these functions the admission's lock must be held.
  Session& take(const Wish& wish);
  Wish wish_of(const VideoPlan& plan, const Precision& precision, Products vae) const;
  std::list<Session> idle_since(Clock::time_point latest);
  void watch_idle();

  void give_back(Session& session, Admission::Place claim);
  void end_idle();  // the thread's function
  Clock::duration idle_time() const;

  Model& model_;
  Tenancy& tenancy_;
  std::list<Session> all_;
  std::thread watcher_;
  std::condition_variable woken_;
  bool watching_ = false, ending_ = false;
};

}  // namespace tachy
