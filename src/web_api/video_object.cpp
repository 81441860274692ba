#include "web_api/video_object.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/sha256.h"
#include "web_api/asked.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

json seconds_or_null(int64_t ms) { return ms > 0 ? json(ms / 1000) : json(); }

json error_of(const queue::JobRow& row) {
  if (row.status != queue::Status::failed) return nullptr;
  return {{"code", row.error.code.empty() ? "internal_error" : row.error.code},
          {"message", row.error.message}};
}

// The addresses of what belongs to the job, without the server's own name, which only the caller knows.
json urls_of(const queue::JobRow& row) {
  const std::string self = "/v1/videos/" + row.id;
  json urls = {{"self", self}, {"events", self + "/events"}};
  const bool there = row.status == queue::Status::completed;
  for (const char* variant : {"video", "thumbnail", "spritesheet"})
    urls[variant] = there ? json(self + "/content?variant=" + variant) : json();
  return urls;
}

// Takes what is said of the source out of the fields, and adds it to the object as the client knows it.
void add_source(json& video, json& fields) {
  const json from = fields.contains(kMadeFrom) ? fields.at(kMadeFrom) : json::object();
  fields.erase(kMadeFrom);
  video["remixed_from_video_id"] = from.contains("remix") ? from.at("remix") : json();
  video["extended_from_video_id"] = from.contains("extension") ? from.at("extension") : json();
  const bool waits = video.at("status") == "queued" && from.contains("awaited");
  video["waits_for"] = waits ? from.at("awaited") : json::array();
  video["extended_from_frame"] = from.contains("from_frame") ? from.at("from_frame") : json();
}

template <class T>
json member(const json& object, const char* key, T otherwise) {
  const auto it = object.find(key);
  return it == object.end() ? json(otherwise) : *it;
}

}  // namespace

json stored_object(const std::string& text) {
  json value = parsed_or_discarded(text);
  return value.is_object() ? value : json::object();
}

std::string revision_of(const queue::JobRow& row) {
  Sha256 hash;
  hash.add(row.model + "\n" + row.request);
  return hash.hex().substr(0, 16);
}

json expected_facts(const VideoRequest& request) {
  json facts = {{"seed", request.seed}};
  if (request.width && request.height) facts["size"] = fmt::format("{}x{}", *request.width, *request.height);
  if (request.frames) facts["frames"] = *request.frames;
  if (request.fps) facts["fps"] = *request.fps;
  if (request.steps) facts["steps"] = *request.steps;
  if (request.frames && request.fps && *request.fps > 0)
    facts["seconds"] = fmt::format("{:.2f}", *request.frames / *request.fps);
  return facts;
}

json live_fields(const queue::JobRow& row, const workers::Live& live) {
  const bool ended = has_ended(row), waits = row.status == queue::Status::queued;
  std::string why = live.why.empty() ? row.why : live.why;
  if (waits && !row.awaits.empty() && !row.paused)
    why = row.kind == "join" ? "it waits for the videos that it is made of"
                             : "it waits for the video that it goes on from";
  return {{"queue_position", waits && live.position >= 0 ? json(live.position) : json()},
          {"eta_seconds",
           !ended && live.eta_seconds >= 0 ? json(std::round(live.eta_seconds * 10) / 10) : json()},
          {"why", why.empty() ? json() : json(why)},
          {"stage", live.stage.empty() || ended ? json() : json(live.stage)}};
}

json video_object(const queue::JobRow& row, const workers::Live& live) {
  const json facts = stored_object(row.facts);
  json fields = stored_object(row.request);
  const bool ended = has_ended(row);
  const bool waits = row.status == queue::Status::queued;
  json video = {
      {"id", row.id},
      {"object", "video"},
      {"created_at", row.created_ms / 1000},
      {"completed_at", row.status == queue::Status::completed ? seconds_or_null(row.ended_ms) : json()},
      {"expires_at", seconds_or_null(row.expires_ms)},
      {"status", queue::to_string(row.status)},
      {"progress", row.status == queue::Status::completed ? 100 : std::clamp(row.progress, 0, 100)},
      {"model", row.model},
      {"prompt", member(fields, "prompt", nullptr)},
      {"seconds", member(facts, "seconds", "0.00")},
      {"size", member(facts, "size", "")},
      {"error", error_of(row)},
      {"kind", row.kind},
      {"paused", waits && row.paused},
      {"priority", row.priority},
      {"started_at", seconds_or_null(row.started_ms)},
      {"ended_at", ended ? seconds_or_null(row.ended_ms) : json()},
      {"worker", row.worker.empty() ? json() : json(row.worker)},
      {"seed", member(facts, "seed", nullptr)},
      {"num_frames", member(facts, "frames", nullptr)},
      {"fps", member(facts, "fps", nullptr)},
      {"bytes", row.status == queue::Status::completed ? member(facts, "bytes", nullptr) : json()},
      {"revision", revision_of(row)},
      {"urls", urls_of(row)}};
  add_source(video, fields);
  video["settings"] = std::move(fields);
  video.update(live_fields(row, live));
  return video;
}

int poll_after_ms(const queue::JobRow& row, const workers::Live& live) {
  const double left = live.eta_seconds >= 0 ? live.eta_seconds : row.planned_seconds;
  return static_cast<int>(std::lround(std::clamp(left * 1000 / 20, 500.0, 5000.0)));
}

http::Reply video_reply(Service& service, const queue::JobRow& row) {
  const workers::Live live = has_ended(row) ? workers::Live{} : service.foreman.live(row);
  return video_reply(row, live, json_line(video_object(row, live)));
}

http::Reply video_reply(const queue::JobRow& row, const workers::Live& live, std::string text) {
  http::Reply reply = http::json_reply(200, std::move(text));
  if (!has_ended(row))
    reply.headers.emplace_back("openai-poll-after-ms", std::to_string(poll_after_ms(row, live)));
  return reply;
}

}  // namespace tachy::web_api
