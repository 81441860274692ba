// The frames of a job that was cancelled with the wish to keep them, when the process died before it had done so.
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "workers/running_job.h"

namespace tachy::workers {

bool RunningJob::had_frames() const {
  std::string stage;
  for (const queue::Event& event : shop_.book.since(row_.id, 0))
    if (event.type == "progress") stage = parsed_or_discarded(event.data).value("stage", "");
  return stage == "decode";
}

// A clip whose latents were finished is decoded whole. Of a video that is made in windows or blocks, those
// count that were begun to be decoded.
bool RunningJob::makes_no_more(const Progress& p) const {
  if (!kept_late_ || p.stage == "decode") return false;
  return !had_frames_ || p.windows > 1 || prepared_->request().block != 0;
}

void RunningJob::stop_keeping() {
  Stop now = why_.load();
  while (now < Stop::keep && !why_.compare_exchange_weak(now, Stop::keep)) {
  }
  keep_ = why_ == Stop::keep;
  cancel_ = true;
}

}  // namespace tachy::workers
