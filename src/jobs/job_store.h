// How a job begins: which output is its own, and what an earlier run has left of it. The store is the folder that outputs lie in, where
// each has its state, the files of its windows and its settings beside it.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "jobs/job_sink.h"
#include "jobs/job_spec.h"

namespace tachy::jobs {

struct JobStart;  // job_start.h

class JobStore {
 public:
  // cancel: stops what waits for the disk; may be null.
  explicit JobStore(const std::atomic<bool>* cancel) : cancel_(cancel) {}

  // Claims the output, tells the sink what it goes on with, and throws what is in the way. A job without a name of its own
  // (JobSpec::named) takes the first free one of SLUG-SEED.mp4, SLUG-SEED_2.mp4 …; where it is to resume, the first of these that has
  // a state of this very job. model: the fingerprint, asked for when it is needed.
  JobStart begin(const JobSpec& job, const nlohmann::json& settings,
                 const std::function<std::string()>& model, JobSink& sink);

 private:
  const std::atomic<bool>* cancel_;
  std::set<std::filesystem::path> made_;  // outputs of this store's jobs
};

// The seed that an earlier run of this prompt has drawn, which a job that resumes goes on with: that of an interrupted one, otherwise of
// a finished one. output: "" for those with names of their own. Seeds in `used` are other jobs'.
std::optional<uint64_t> seed_drawn_before(const std::filesystem::path& output, const std::string& prompt,
                                          const std::set<uint64_t>& used);

}  // namespace tachy::jobs
