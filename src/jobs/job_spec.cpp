#include "jobs/job_spec.h"

namespace tachy::jobs {

std::filesystem::path model_path(const RunSettings& settings) {
  if (!settings.model.empty()) return settings.model;
  return shipped_model(settings.request.speech ? "talker" : "sprites");
}

void settle_stream(VideoRequest& r, bool block_given) {
  if (!r.preset && !r.sampler && !block_given && r.block == 0 && !r.image) r.preset = "self-forcing-4";
}

}  // namespace tachy::jobs
