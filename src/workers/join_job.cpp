#include "workers/join_job.h"

#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "base/json_text.h"
#include "jobs/settings.h"

namespace tachy::workers {

JoinedVideo join_videos(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                        CancelFlag cancel) {
  nlohmann::json about = {{"tachyscope", version()}, {"join", nlohmann::json::array()}};
  for (const std::filesystem::path& input : inputs) {
    cancel.throw_if_set();
    about["join"].push_back(
        {{"name", input.filename().string()}, {"sha256", jobs::sha256_of(input.string(), "join")}});
  }
  return tachy::join_videos(inputs, output, {.comment = json_line(about), .cancel = cancel});
}

}  // namespace tachy::workers
