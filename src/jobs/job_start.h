// A JobStore hands this out: a job's output, and what an earlier run has left of it. Private to src/jobs.
#pragma once

#include <memory>
#include <optional>

#include "jobs/claimed_output.h"
#include "jobs/state_file.h"

namespace tachy::jobs {

struct JobStart {
  ClaimedOutput output;              // nobody else writes it while this lives
  std::unique_ptr<StateFile> state;  // of that output
  std::optional<RunState> earlier;   // to go on from
  bool complete = false;             // nothing is left to do
};

}  // namespace tachy::jobs
