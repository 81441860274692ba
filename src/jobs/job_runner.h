// Makes the video of a job: resuming, the writer, what the engine calls back, the files beside it.
#pragma once

#include <atomic>

#include "jobs/job_sink.h"
#include "jobs/job_spec.h"
#include "jobs/job_store.h"

namespace tachy::jobs {

class JobRunner {
 public:
  // All outlive it. The sink is told the warnings of its jobs, each text once a call. cancel: stops a job within half a second, from any thread.
  JobRunner(Engine& engine, JobStore& store, JobSink& sink, const std::atomic<bool>* cancel)
      : engine_(engine), store_(store), sink_(sink), cancel_(cancel) {}

  // Engine::prepare of the job's request.
  PreparedRequest prepare(const JobSpec& job);

  // prepared: this engine's, of the job's request. profiler: told of the run; may be null. Returns false where the video was there
  // already. Throws what Engine::generate throws, io where a file cannot be written or is somebody else's, and invalid_argument for a
  // job that cannot be; the video is then not there, or is what it was before.
  bool run(const JobSpec& job, const PreparedRequest& prepared, Profiler* profiler = nullptr);

 private:
  Engine& engine_;
  JobStore& store_;
  JobSink& sink_;
  const std::atomic<bool>* cancel_;
};

}  // namespace tachy::jobs
