// The sessions of a model: who may compute now, and where. A job is let in when what it may take fits beside
// what the others that run may take; until then it waits. When a job begins, kept parts that it does not count
// on are released, so that its plan is true; where memory is short, so are those of other ways of computing and
// what idle sessions keep.
#pragma once

#include <condition_variable>
#include <list>

#include "base/memory_room.h"
#include "session/claim.h"
#include "session/session.h"

namespace tachy {

class SessionPool {
 public:
  explicit SessionPool(Model& model) : model_(model) {}

  // A session that is nobody else's until this goes away.
  class Lease {
   public:
    Lease(SessionPool& pool, Session& session, std::list<Claim>::iterator claim)
        : pool_(pool), session_(session), claim_(claim) {}
    ~Lease() { pool_.give_back(session_, claim_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Session& session() const { return session_; }

   private:
    SessionPool& pool_;
    Session& session_;
    std::list<Claim>::iterator claim_;
  };

  // To plan on a GPU, whose libraries' states one thread may use at a time.
  Lease to_plan();
  // For a job. Throws out_of_memory where it would not fit alone, and cancelled.
  Lease to_compute(const VideoPlan& plan, const Precision& precision, Products vae,
                   const std::atomic<bool>* cancel);

  // Throws out_of_memory, with both numbers, when the plan needs more than this process may take.
  void check_memory(const VideoPlan& plan) const;

 private:
  // What was there when no job ran: while some do, what they hold is not free.
  struct Room {
    MemoryRoom host;
    uint64_t held = 0;
  };
  // Whoever would wait for a job of its own thread is told instead.
  void wait(std::unique_lock<std::mutex>& lock);
  Session& take(const Session::Layout& wanted);
  void give_back(Session& session, std::list<Claim>::iterator claim);
  Room room() const;
  void check_alone(const VideoPlan& plan, const Room& room) const;
  void check_host_alone(const VideoPlan& plan, const Room& room) const;
  bool fits(const VideoPlan& plan, const Claim& claim, const Session* mine) const;
  bool make_room(const VideoPlan& plan, const Precision& precision, const Claim& claim, const Session* mine);
  uint64_t idle_bytes(const Session* except) const;
  Session* best_idle(const Session::Layout& wanted) const;

  Model& model_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Session> all_;
  std::vector<Session*> idle_;
  std::list<Claim> running_;
  mutable Room room_;
};

}  // namespace tachy
