// The sessions of a model: where its jobs compute. When they may is the business of the device's Admission (session/admission.h),
// on which all models there draw. When a job begins, kept parts that it does not count on are released, so that its plan is
// true; where memory is short, so are those of other ways of computing and what idle sessions keep, in the end those of other
// models.
//
// A session that was nobody's for the model's `idle_seconds` is given back with all that it keeps; the next job opens one again.
// The thread that notices is there only while some session is idle.
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

  // A session that is nobody else's until this goes away.
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

  // To plan on a GPU, whose libraries' states one thread may use at a time.
  Lease to_plan();
  // For a job. Throws out_of_memory where it would not fit alone, and cancelled.
  Lease to_compute(const VideoPlan& plan, const Precision& precision, Products vae,
                   const std::atomic<bool>* cancel);

  // Throws out_of_memory, with both numbers, when the plan needs more than this process may take.
  void check_memory(const VideoPlan& plan) const { tenancy_.check_memory(plan); }

  size_t sessions();  // that are open

 private:
  using Clock = Tenant::Clock;
  // All of these with the lock of the admission.
  Session& take(const Wish& wish);
  std::list<Session> idle_since(Clock::time_point latest);
  void watch_idle();

  void give_back(Session& session, Admission::Place claim);
  void end_idle();  // what the thread does
  Clock::duration idle_time() const;

  Model& model_;
  Tenancy& tenancy_;
  std::list<Session> all_;
  std::thread watcher_;
  std::condition_variable woken_;
  bool watching_ = false, ending_ = false;
};

}  // namespace tachy
