#include "workers/join_job.h"

#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "base/json_text.h"
#include "jobs/settings.h"

namespace tachy::workers {

JoinedVideo join_videos(std::span<const JoinPart> parts, const std::filesystem::path& output,
                        CancelFlag cancel) {
  nlohmann::json about = {{"tachyscope", version()}, {"join", nlohmann::json::array()}};
  for (const JoinPart& part : parts) {
    cancel.throw_if_set();
    nlohmann::json one = {{"name", part.path.filename().string()},
                          {"sha256", jobs::sha256_of(part.path.string(), "join")}};
    if (part.first_frame > 0) one["first_frame"] = part.first_frame;
    if (part.last_frame >= 0) one["last_frame"] = part.last_frame;
    about["join"].push_back(std::move(one));
  }
  return tachy::join_videos(parts, output, {.comment = json_line(about), .cancel = cancel});
}

}  // namespace tachy::workers
