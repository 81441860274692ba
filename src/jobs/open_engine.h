// Opens the engine for a job, on the device that the job asks for or was made on.
#pragma once

#include <optional>

#include "jobs/job_sink.h"
#include "jobs/job_spec.h"

namespace tachy::jobs {

// Adds the settings' model parts to the engine's options.
EngineOptions with_parts(EngineOptions options, const RunSettings& settings);

// Returns the device with which open_engine() opens the engine: that of an earlier run where `job` repeats or resumes
// one and nobody names another, otherwise the first one of options.gpus, or the machine's choice. A process of several
// (options.crew) keeps what was asked for: Engine() finds out which GPU belongs to its place among those of its host.
std::string device_to_open(const JobSpec& job, const EngineOptions& options);

struct OpenedEngine {
  Engine engine;
  std::optional<PreparedRequest> first;  // the job, if choosing the device required its plan
};

// If options.device is "" or "auto", the machine chooses. Settings that were read from an earlier run ask for
// the same kind of device as that run, since another kind would not give the same frames. If nobody named a
// GPU and the job does not fit on it, the CPU is used instead, and the sink is told; with options.max_vram
// this does not happen. Throws what Engine() throws, and unsupported if the earlier run's device is not here.
OpenedEngine open_engine(const JobSpec& job, const EngineOptions& options, JobSink& sink);

}  // namespace tachy::jobs
