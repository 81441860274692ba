// The result of JobStore::begin: a job's output, and what an earlier run has left of it. Private to src/jobs.
#pragma once

#include <memory>
#include <optional>

#include "jobs/claimed_output.h"
#include "jobs/state_file.h"

namespace tachy::jobs {

struct JobStart {
  ClaimedOutput output;              // nothing else writes to it while this lives
  std::unique_ptr<StateFile> state;  // the state file of that output
  std::optional<RunState> earlier;   // the state to resume from
  bool complete = false;             // true if nothing is left to do
};

}  // namespace tachy::jobs
