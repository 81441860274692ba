// Who is told of a job while it runs. Calls come from the thread that runs the job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/tachyscope.h"

namespace tachy::jobs {

class JobSink {
 public:
  virtual ~JobSink() = default;
  // Something that happened, as JSON ("event": "resume", "seed", "complete", "done") and as a line for people.
  virtual void event(const nlohmann::json& event, const std::string& text) = 0;
  // A warning, or a line for people that is no event: where settings went, which device is taken. It names fields in backticks.
  virtual void notice(const std::string& text) = 0;
  virtual void progress(const Progress& progress) = 0;
  virtual void end_of_progress() = 0;  // before other lines
  // What follows "cancelled" if the process ends now: where the job can go on from; "": nowhere.
  virtual void can_go_on(const std::string& text) = 0;
};

}  // namespace tachy::jobs
