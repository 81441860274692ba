// A run that is told to hold waits at its next check (Stream::throw_if_cancelled) with all the memory that it has, so
// that another one may compute meanwhile. It goes on with the same bits.
#pragma once

#include "base/clock.h"
#include "tensor/hooks.h"

namespace tachy {

// Waits while the run is held. Throws `cancelled` if the run is told to stop meanwhile. It returns at once inside a
// body of a thread pool, because other runs need its workers, and while others wait for what the run is making.
void hold_run(const Hooks& hooks);

// While one lives, this thread does not hold: a GPU's graph is recorded in one go.
class NoHold {
 public:
  NoHold();
  ~NoHold();
  NoHold(const NoHold&) = delete;
  NoHold& operator=(const NoHold&) = delete;
};

// Returns how long this thread has waited in holds, in seconds.
double held_seconds();

// A clock that stands still while this thread is held.
inline double computing_seconds() { return monotonic_seconds() - held_seconds(); }

}  // namespace tachy
