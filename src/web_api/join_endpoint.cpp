// Several videos of one size and rate become one, in the order in which they are named, each whole or from one frame to
// another. It is a job of its own, which waits for those that are not completed yet, and shares the files of the videos:
// they may be deleted as soon as it has them.
#include <algorithm>

#include "base/json_text.h"
#include "base/sha256.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/fields/values.h"
#include "web_api/job_request.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr size_t kMostJoined = 100;

[[noreturn]] void refuse_videos(const std::string& why) {
  throw ApiError("invalid_value", "`videos`: " + why, "videos");
}

// A video that is asked for, and which of its frames.
struct Asked {
  std::string id;
  int64_t first = 0, last = -1;  // -1: to the end
  bool whole() const { return first == 0 && last < 0; }
  json as_given() const {
    if (whole()) return id;
    json given = {{"id", id}};
    if (first > 0) given["first_frame"] = first;
    if (last >= 0) given["last_frame"] = last;
    return given;
  }
};

Asked asked_part(const json& part) {
  if (part.is_string()) return {part};
  if (!part.is_object() || !part.contains("id") || !part.at("id").is_string())
    refuse_videos("expected a list of ids, or of {\"id\", \"first_frame\", \"last_frame\"}");
  Asked asked{part.at("id")};
  for (const auto& [field, value] : part.items()) {
    if (field == "id") continue;
    if (field != "first_frame" && field != "last_frame")
      throw ApiError("unknown_parameter", "`videos`: a video has no field '" + field + "' here", "videos");
    const Value number{.param = "videos", .value = value};
    (field == "first_frame" ? asked.first : asked.last) = whole_number_in(number, {.least = 0, .most = 1e9});
  }
  return asked;
}

// Returns the parts in the body, which has the one field `videos`.
std::vector<Asked> parts_of(const Fields& fields) {
  for (const auto& [field, value] : fields.values.items())
    if (field != "videos")
      throw ApiError("unknown_parameter", "`" + field + "`: there is no such field", field);
  if (!fields.values.contains("videos"))
    throw ApiError("missing_parameter", "`videos`: it is missing", "videos");
  json list = fields.values.at("videos");
  if (!fields.typed && list.is_string()) list = parsed_or_discarded(list.get<std::string>());
  if (!list.is_array() || list.empty() || list.size() > kMostJoined)
    refuse_videos(fmt::format("expected a list of 1 to {} videos", kMostJoined));
  std::vector<Asked> parts;
  for (const json& part : list) parts.push_back(asked_part(part));
  if (parts.size() == 1 && parts.front().whole()) refuse_videos("one whole video is there already");
  return parts;
}

int64_t frames_of(const queue::JobRow& row) { return stored_object(row.facts).value("frames", int64_t{0}); }

// Throws unless the video has these frames.
void expect_frames(const Asked& part, const queue::JobRow& row) {
  const int64_t frames = frames_of(row), last = part.last < 0 ? frames - 1 : part.last;
  if (part.whole() || (part.first <= last && last < frames)) return;
  refuse_videos(fmt::format("{} has the frames 0 to {}, and those from {} to {} were asked for", row.id,
                            frames - 1, part.first, last));
}

bool is_completed(const queue::JobRow& row) { return row.status == queue::Status::completed; }

// Returns the jobs with these ids, which are completed or will be. All have the size and the rate of the first.
std::vector<queue::JobRow> jobs_of_parts(Service& service, const http::Request& request,
                                         const std::vector<Asked>& parts) {
  std::vector<queue::JobRow> rows;
  for (const Asked& part : parts) {
    const std::string& id = part.id;
    rows.push_back(visible_job(service, request.caller, id, "videos"));
    if (rows.back().status == queue::Status::failed) refuse_videos(id + " has failed");
    if (is_completed(rows.back())) local_video(service, request, rows.back());  // it is there
    const json first = stored_object(rows.front().facts), facts = stored_object(rows.back().facts);
    for (const char* key : {"size", "fps"})
      if (facts.value(key, json()) != first.value(key, json()))
        refuse_videos(fmt::format("{} of {} differs from that of the first video", key, id));
    expect_frames(part, rows.back());
  }
  return rows;
}

json joined_facts(const std::vector<queue::JobRow>& rows, const std::vector<Asked>& parts) {
  const json facts = stored_object(rows.front().facts);
  double seconds = 0;
  int64_t frames = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t all = frames_of(rows[i]);
    const int64_t taken = (parts[i].last < 0 ? all : parts[i].last + 1) - parts[i].first;
    const double whole = std::strtod(stored_object(rows[i].facts).value("seconds", "0").c_str(), nullptr);
    seconds += all > 0 ? whole * double(taken) / double(all) : whole;
    frames += taken;
  }
  return {{"size", facts.value("size", "")},
          {"fps", facts.value("fps", json())},
          {"frames", frames},
          {"seconds", fmt::format("{:.2f}", seconds)}};
}

http::Reply join_videos(Service& service, http::Request& request) {
  refuse_while_ending(service);
  refuse_when_full(service, request);
  const std::vector<Asked> parts = parts_of(fields_of(request));
  const std::vector<queue::JobRow> rows = jobs_of_parts(service, request, parts);
  NewFolder folder(service.files, queue::new_job_id());
  json inputs = json::array(), given = {{"videos", json::array()}};
  std::vector<std::string> awaited;
  for (const Asked& part : parts) {
    const std::string name = fmt::format("{}.mp4", inputs.size() + 1);
    if (const queue::JobRow& source = rows[inputs.size()]; is_completed(source))
      queue::share_file(local_video(service, request, source), folder.inputs() / name);
    else if (std::ranges::find(awaited, source.id) == awaited.end())
      awaited.push_back(source.id);
    json input = part.as_given();
    given["videos"].push_back(input);
    if (input.is_object()) input.erase("id"), input["file"] = name;
    inputs.push_back(part.whole() ? json(name) : std::move(input));
  }
  queue::JobRow row{.id = folder.id(), .model = rows.front().model, .kind = "join"};
  Sha256 hash;
  hash.add("join " + json_line(given));
  if (!awaited.empty()) given[kMadeFrom] = {{"awaited", awaited}};
  row.awaits = queue::joined_ids(awaited);
  row.request = json_line(given);
  row.settings = json_line({{"join", inputs}});
  row.facts = json_line(joined_facts(rows, parts));
  row.planned_seconds = 1;
  return enter(service, request, std::move(row), folder, hash.hex(), nullptr);
}

}  // namespace

void add_join_endpoint(Endpoints& to) {
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/join",
                .id = "joinVideos",
                .means = "Makes one video of several, one after the other, each whole or cut.",
                .answer = join_videos,
                .errors = {404, 410, 422, 429},
                .body = "JoinVideos",
                .form = true,
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
