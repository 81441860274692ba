// Begins jobs: decides which output belongs to a job, and what an earlier run has left of it. The store is
// the folder of the outputs; beside each output are its state, the files of its windows and its settings.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "jobs/job_sink.h"
#include "jobs/job_spec.h"

namespace tachy::jobs {

struct JobStart;  // job_start.h

// Jobs of several threads may share a store.
class JobStore {
 public:
  // `cancel` ends a wait for the disk; it may be null.
  explicit JobStore(const std::atomic<bool>* cancel) : cancel_(cancel) {}

  // Claims the output, tells the sink what it resumes from, and throws if something is in the way. A job
  // without a name of its own (JobSpec::named) takes the first free one of SLUG-SEED.mp4, SLUG-SEED_2.mp4 …;
  // if it is to resume, it takes the first of these that has a state of this very job. `model` returns the
  // model's fingerprint; it is called only if that is needed.
  JobStart begin(const JobSpec& job, const nlohmann::json& settings,
                 const std::function<std::string()>& model, JobSink& sink);

 private:
  const std::atomic<bool>* cancel_;
  std::mutex mutex_;
  std::set<std::filesystem::path> made_;  // the outputs of this store's jobs
};

// The seed that an earlier run of this prompt drew, for a job that resumes: that of an interrupted run,
// otherwise that of a finished one. `output` is "" for jobs whose names are made from the prompt. Seeds in
// `used` belong to other jobs.
std::optional<uint64_t> seed_drawn_before(const std::filesystem::path& output, const std::string& prompt,
                                          const std::set<uint64_t>& used);

}  // namespace tachy::jobs
