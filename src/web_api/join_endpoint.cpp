// Several videos of one size and rate become one, in the order in which they are named. It is a job of its own, which
// shares the files of the videos: they may be deleted as soon as it is in the queue.
#include <set>

#include "base/json_text.h"
#include "base/sha256.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr size_t kMostJoined = 100;

[[noreturn]] void refuse_videos(const std::string& why) {
  throw ApiError("invalid_value", "`videos`: " + why, "videos");
}

// Returns the ids in the body, which has the one field `videos`.
std::vector<std::string> ids_of(const Fields& fields) {
  for (const auto& [field, value] : fields.values.items())
    if (field != "videos")
      throw ApiError("unknown_parameter", "`" + field + "`: there is no such field", field);
  if (!fields.values.contains("videos"))
    throw ApiError("missing_parameter", "`videos`: it is missing", "videos");
  json list = fields.values.at("videos");
  if (!fields.typed && list.is_string()) list = parsed_or_discarded(list.get<std::string>());
  if (!list.is_array() || list.size() < 2 || list.size() > kMostJoined)
    refuse_videos(fmt::format("expected a list of 2 to {} ids", kMostJoined));
  std::vector<std::string> ids;
  for (const json& id : list) {
    if (!id.is_string()) refuse_videos("expected a list of ids");
    ids.push_back(id);
  }
  return ids;
}

// Returns the completed jobs with these ids. All have the size and the rate of the first.
std::vector<queue::JobRow> completed_jobs(Service& service, const http::Request& request,
                                          const std::vector<std::string>& ids) {
  std::vector<queue::JobRow> rows;
  for (const std::string& id : ids) {
    rows.push_back(visible_job(service, request.caller, id, "videos"));
    if (rows.back().status != queue::Status::completed) refuse_videos(id + " is not completed");
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(queue::JobFolder(service.files, id).video(), ignored))
      throw ApiError("expired", "the file of " + id + " is gone", "videos");
    const json first = stored_object(rows.front().facts), facts = stored_object(rows.back().facts);
    for (const char* key : {"size", "fps"})
      if (facts.value(key, json()) != first.value(key, json()))
        refuse_videos(fmt::format("{} of {} differs from that of the first video", key, id));
  }
  return rows;
}

json joined_facts(const std::vector<queue::JobRow>& rows) {
  json facts = stored_object(rows.front().facts);
  double seconds = 0;
  int64_t frames = 0;
  for (const queue::JobRow& row : rows) {
    const json one = stored_object(row.facts);
    seconds += std::strtod(one.value("seconds", "0").c_str(), nullptr);
    frames += one.value("frames", int64_t{0});
  }
  return {{"size", facts.value("size", "")},
          {"fps", facts.value("fps", json())},
          {"frames", frames},
          {"seconds", fmt::format("{:.2f}", seconds)}};
}

http::Reply join_videos(Service& service, http::Request& request) {
  refuse_while_ending(service);
  refuse_when_full(service, request);
  const std::vector<std::string> ids = ids_of(fields_of(request));
  const std::vector<queue::JobRow> rows = completed_jobs(service, request, ids);
  NewFolder folder(service.files, queue::new_job_id());
  json names = json::array();
  for (const queue::JobRow& row : rows) {
    names.push_back(fmt::format("{}.mp4", names.size() + 1));
    share_file(queue::JobFolder(service.files, row.id).video(),
               folder.inputs() / names.back().get<std::string>());
  }
  const json given = {{"videos", ids}};
  queue::JobRow row{.id = folder.id(), .model = rows.front().model, .kind = "join"};
  row.request = json_line(given);
  row.settings = json_line({{"join", names}});
  row.facts = json_line(joined_facts(rows));
  row.planned_seconds = 1;
  Sha256 hash;
  hash.add("join " + json_line(given));
  return enter(service, request, std::move(row), folder, hash.hex(), nullptr);
}

}  // namespace

void add_join_endpoint(Endpoints& to) {
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/join",
                .id = "joinVideos",
                .means = "Makes one video of several, one after the other.",
                .answer = join_videos,
                .errors = {404, 410, 422, 429},
                .body = "JoinVideos",
                .form = true,
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
