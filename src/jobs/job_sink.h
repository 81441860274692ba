// Who is told of a job while it runs. Calls come from the thread that runs the job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

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
  // Says where the job could go on from if the process ended now, as words to follow "cancelled"; "": nowhere.
  virtual void can_go_on(const std::string& text) = 0;
};

// For a LineScope (base/notice.h): the sink is told what is warned of.
inline auto to_sink(JobSink& sink) {
  return [&sink](std::string_view text) { sink.notice(std::string(text)); };
}

}  // namespace tachy::jobs
