// The engine for a job, on the device that it asks for, or that it came from.
#pragma once

#include <optional>

#include "jobs/job_sink.h"
#include "jobs/job_spec.h"

namespace tachy::jobs {

// The settings' parts of the model, laid over the engine's options.
EngineOptions with_parts(EngineOptions options, const RunSettings& settings);

struct OpenedEngine {
  Engine engine;
  std::optional<PreparedRequest> first;  // the job's, where the choice of the device took its plan
};

// options.device "" or "auto": left to the machine. Settings that were read from an earlier run ask for the kind of device that this
// had, since another one would not give the same frames. A GPU that nobody named and that has no room for the job gives way to the
// CPU, which the sink is told; with options.max_vram it does not. Throws what Engine() throws, and unsupported where the earlier run's
// device is not here.
OpenedEngine open_engine(const JobSpec& job, const EngineOptions& options, JobSink& sink);

}  // namespace tachy::jobs
