// Chooses the waiting job that a worker takes where several hosts share the queue: one that it can make, and that no
// other host would better take.
//
//   1. It has the model and the LoRAs, and a living host with more memory is not the only one that can hold it.
//   2. A job that was begun goes on where its state lies, as long as a host of that folder lives.
//   3. A job whose model is in memory on another host that is free is left to that one for a second. After that
//      anybody takes it: loading costs less than waiting on and on.
//
// The order in which jobs are looked at is the policy's (queue/policy.h), with what this host has in memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "queue/job_row.h"
#include "workers/presence.h"

namespace tachy::workers {

// Returns what the host lacks for a job, such as "the model `wan`", or "".
std::string lacks(const HostAbout& host, const queue::WaitingJob& job);

struct Placement {
  bool take = false;
  std::string why;  // in words, for whoever asks for the job
};

// Decides about one job. `hosts` are those that are alive; the one named like `self` does not count. `waited_seconds`
// is how long the job could have been taken by anybody.
Placement place(const queue::WaitingJob& job, const Host& self, std::span<const Host> hosts,
                double waited_seconds);

// Says why a job waits, for a client: no host can make it, or it waits for its turn.
std::string why_waiting(const queue::WaitingJob& job, std::span<const Host> hosts, int64_t position);

// Returns a living host that can make the job and has more memory than this one, or "".
std::string larger_host(const queue::WaitingJob& job, const Host& self, std::span<const Host> hosts);

}  // namespace tachy::workers
