#include "jobs/job_spec.h"

namespace tachy::jobs {

const char* default_model(const RunSettings& settings) {
  return settings.request.speech ? "talker" : "sprites";
}

void settle_stream(VideoRequest& r) {
  if (!r.preset && !r.sampler && r.block == 0 && !r.image) r.preset = "self-forcing-4";
}

}  // namespace tachy::jobs
