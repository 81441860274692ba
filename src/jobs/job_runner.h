// Makes the video of a job: it resumes, writes the video and the files beside it, and handles the engine's
// callbacks.
#pragma once

#include "jobs/job_control.h"
#include "jobs/job_sink.h"
#include "jobs/job_spec.h"
#include "jobs/job_store.h"

namespace tachy::jobs {

class JobRunner {
 public:
  // All arguments must outlive the runner. The sink gets the warnings of its jobs, each text once per call.
  JobRunner(Engine& engine, JobStore& store, JobSink& sink, JobControl control)
      : engine_(engine), store_(store), sink_(sink), control_(control) {}
  JobRunner(Engine& engine, JobStore& store, JobSink& sink, const std::atomic<bool>* cancel)
      : JobRunner(engine, store, sink, JobControl{.cancel = cancel, .saves_last_step = false}) {}

  // Calls Engine::prepare with the job's request.
  PreparedRequest prepare(const JobSpec& job);

  // `prepared` is the job's request, prepared by this engine. `profiler` is told of the run and may be null.
  // Returns false if the video was already there. Throws what Engine::generate throws, io if a file cannot be
  // written or belongs to something else, and invalid_argument for an impossible job; the video is then
  // missing, or is what it was before. When it returns, the video and its settings are on the disk.
  bool run(const JobSpec& job, const PreparedRequest& prepared, Profiler* profiler = nullptr);

 private:
  Engine& engine_;
  JobStore& store_;
  JobSink& sink_;
  JobControl control_;
};

}  // namespace tachy::jobs
