// The jobs of a `tachyscope generate`, and their reports.
#pragma once

#include <vector>

#include "generate_options.h"
#include "jobs/job_sink.h"
#include "jobs/job_spec.h"
#include "progress.h"

namespace tachy::cli {

// Makes a job for each prompt and seed.
std::vector<jobs::JobSpec> make_jobs(const GenerateOptions& options);

// Reports on a job in the terminal: lines of text, or of JSON with --json, and progress.
class TerminalSink : public jobs::JobSink {
 public:
  explicit TerminalSink(const GenerateOptions& options)
      : options_(options), progress_(ProgressLine::choose(options.json, options.quiet)) {}
  // One of several jobs at once; `device` names it in each report.
  TerminalSink(const GenerateOptions& options, const std::string& device)
      : options_(options),
        device_(device),
        progress_(ProgressLine::choose(options.json, options.quiet), device) {}
  void event(const nlohmann::json& event, const std::string& text) override;
  void notice(const std::string& text) override;
  void progress(const Progress& progress) override { progress_.update(progress); }
  void end_of_progress() override { progress_.clear(); }
  void can_go_on(const std::string& text) override;

 private:
  const GenerateOptions& options_;
  std::string device_;
  ProgressLine progress_;
};

}  // namespace tachy::cli
