// Receives reports about a job while it runs. Calls come from the thread that runs the job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/tachyscope.h"

namespace tachy::jobs {

class JobSink {
 public:
  virtual ~JobSink() = default;
  // An event, as JSON ("event": "resume", "seed", "complete", "done") and as a line for people.
  virtual void event(const nlohmann::json& event, const std::string& text) = 0;
  // A warning, or a line for people that is not an event, such as where the settings are or which device was
  // chosen. It names fields in backticks.
  virtual void notice(const std::string& text) = 0;
  virtual void progress(const Progress& progress) = 0;
  virtual void end_of_progress() = 0;  // called before other lines
  // Tells where the job could be resumed if the process ended now, in words to follow "cancelled"; "":
  // nowhere.
  virtual void can_go_on(const std::string& text) = 0;
  // Receives the request as it was run, with what was seen of the run, before the file is finished.
  virtual void ran(const ResolvedRequest& run) {}
  // Tells that the run was stopped: the device's memory is free again, while the state is still to be written.
  virtual void left_device() {}
  // Is called before the finished file gets its name. If it throws, the file does not get it.
  virtual void finishing() {}
  // Tells how long the encoder has worked when the file is finished. It works beside the decoder.
  virtual void encoded(double seconds) {}
  // Receives the latents after a step as a small picture, which is valid during the call, if wants_previews() says so
  // when the job begins.
  virtual bool wants_previews() const { return false; }
  virtual void preview(const RgbImage& picture, int step) {}
};

// Makes a function for a LineScope (base/notice.h) that passes warnings on to the sink.
inline auto to_sink(JobSink& sink) {
  return [&sink](std::string_view text) { sink.notice(std::string(text)); };
}

}  // namespace tachy::jobs
