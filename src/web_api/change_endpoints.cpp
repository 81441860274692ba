// Changing what becomes of a job: cancel, pause, continue, and new values for one that still waits.
#include <chrono>
#include <thread>

#include "base/json_text.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using queue::Status;
using queue::Wish;

// Waits for a worker to obey, which takes half a second at most, so that the answer shows the result.
queue::JobRow settled(Service& service, queue::JobRow row) {
  using namespace std::chrono_literals;
  const auto until = std::chrono::steady_clock::now() + 600ms;
  while (row.status == Status::in_progress && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(10ms);
    auto now = service.table.find(row.id);
    if (!now) break;
    row = std::move(*now);
  }
  return row;
}

// Returns a job that was there a moment ago as it is now.
queue::JobRow still_there(std::optional<queue::JobRow> row) {
  if (!row) throw ApiError("not_found", "there is no video with this id");
  return std::move(*row);
}

void expect_not_ended(const queue::JobRow& row, const char* code, const char* what) {
  if (has_ended(row))
    throw ApiError(code, fmt::format("the video is {} and cannot be {}", queue::to_string(row.status), what));
}

// Returns the message about a job that would be cancelled now, if the server has a webhook.
std::optional<queue::Webhook> cancel_message(const Service& service, queue::JobRow row) {
  if (!service.message) return std::nullopt;
  row.status = Status::failed;
  row.ended_ms = service.table.now_ms();
  row.error = {"cancelled", "the job was cancelled"};
  return service.message(row);
}

http::Reply cancel_video(Service& service, http::Request& request) {
  queue::JobRow row = job_of(service, request);
  const bool keep = choice_asked(request, "keep", {"false", "true"}) == "true";
  if (row.status == Status::failed && row.error.code == "cancelled") return video_reply(service, row);
  expect_not_ended(row, "not_cancellable", "cancelled");
  row = still_there(service.table.wish(row.id, keep ? Wish::cancel_keeping_frames : Wish::cancel,
                                       cancel_message(service, row)));
  service.foreman.wake();
  if (row.status == Status::failed &&
      !service.book.ended(row.id))  // it waited, so no worker tells of its end
    service.book.add(row.id, "failed",
                     {{"error", {{"code", row.error.code}, {"message", row.error.message}}}});
  return video_reply(service, keep ? row : settled(service, std::move(row)));
}

http::Reply pause_video(Service& service, http::Request& request) {
  queue::JobRow row = job_of(service, request);
  expect_not_ended(row, "invalid_value", "paused");
  if (row.status == Status::queued) {
    if (auto held = service.table.set_paused(row.id, true)) row = std::move(*held);
  }
  if (row.status == Status::in_progress || !row.paused) row = still_there(service.table.find(row.id));
  if (row.status == Status::in_progress) {
    row = still_there(service.table.wish(row.id, Wish::pause, std::nullopt));
    service.foreman.wake();
    row = settled(service, std::move(row));
  }
  service.foreman.wake();
  return video_reply(service, row);
}

// A job that is about to be paused loses that wish; one that a worker has given back meanwhile is let go.
http::Reply continue_video(Service& service, http::Request& request) {
  queue::JobRow row = job_of(service, request);
  expect_not_ended(row, "invalid_value", "continued");
  if (row.status == Status::in_progress && row.wish == Wish::pause)
    row = still_there(service.table.wish(row.id, Wish::none, std::nullopt));
  if (row.status == Status::queued && row.paused) service.table.set_paused(row.id, false);
  service.foreman.wake();
  return video_reply(service, still_there(service.table.find(row.id)));
}

// Takes `before` out of the fields: the id of the queued job in front of which this one goes, or "" for the end.
std::optional<std::string> take_before(Service& service, const http::Request& request, Fields& fields) {
  if (!fields.values.contains("before")) return std::nullopt;
  const json before = fields.values.at("before");
  fields.values.erase("before");
  if (before.is_null() || before == "") return "";
  if (!before.is_string())
    throw ApiError("invalid_value", "`before`: expected the id of a queued video", "before");
  const queue::JobRow other = visible_job(service, request.caller, before, "before");
  if (other.status != Status::queued)
    throw ApiError("invalid_value", "`before`: that video does not wait any more", "before");
  return other.id;
}

// Plans the job anew with the given fields over its own, and puts its new inputs beside the old ones.
std::shared_ptr<const PreparedRequest> replan(Service& service, const http::Request& request,
                                              const queue::JobRow& row, const Fields& fields,
                                              queue::Change& change) {
  const json base = fields_of_job(row);
  JobRequest job = parse_job(fields, request.caller, service.offers, &base);
  inherit_inputs(service, row, job);
  const workers::Outlook outlook = outlook_or_refuse(service, job, row.owner);
  const queue::JobFolder folder(service.files, row.id);
  place_inputs(job, folder.inputs(), folder.inputs());
  job.job.output = folder.video();
  if (const json given = stored_object(row.request); given.contains(kMadeFrom))
    job.given[kMadeFrom] = given.at(kMadeFrom);
  queue::JobRow changed;
  fill_row(changed, job, outlook);
  change.model = changed.model;
  change.needs = changed.needs;
  change.request = json_line(job.given);
  change.settings = changed.settings;
  change.facts = changed.facts;
  change.priority = changed.priority;
  change.planned_seconds = changed.planned_seconds;
  return outlook.prepared;
}

// Returns the revision that the caller has seen, or "" for any.
std::string seen_revision(const http::Request& request) {
  std::string_view seen = request.header("If-Match");
  if (seen.size() > 2 && seen.front() == '"' && seen.back() == '"') seen = seen.substr(1, seen.size() - 2);
  return seen == "*" ? "" : std::string(seen);
}

void expect_revision(const std::string& revision, const queue::JobRow& row) {
  if (revision != revision_of(row))
    throw ApiError("changed_meanwhile", "somebody has changed the video since: its `revision` is another one",
                   "If-Match");
}

// Changes the job as it is now, and throws changed_meanwhile if it becomes another one before that is done. New values
// were planned beside those that they leave as they are, so they fit this one job only.
http::Reply change_once(Service& service, const http::Request& request, const std::string& seen) {
  const queue::JobRow row = job_of(service, request);
  Fields fields = fields_of(request);
  queue::Change change{.before = take_before(service, request, fields)};
  if (!seen.empty()) expect_revision(seen, row);
  if (row.status != Status::queued)
    throw ApiError("invalid_value", "only a video that is queued can be changed");
  if (row.kind != "video" && !fields.values.empty())
    throw ApiError("unsupported", "of a video that is joined of others only the place can be changed");
  const bool planned = !fields.values.empty();
  std::shared_ptr<const PreparedRequest> prepared;
  if (planned) prepared = replan(service, request, row, fields, change);
  if (planned || !seen.empty())
    change.expect = [revision = revision_of(row)](const queue::JobRow& now) {
      expect_revision(revision, now);
    };
  const auto after = service.table.change(row.id, change);
  if (!after) throw ApiError("invalid_value", "the video has begun meanwhile and cannot be changed");
  if (prepared) service.foreman.remember(row.id, prepared);
  service.foreman.wake();
  return video_reply(service, *after);
}

http::Reply change_video(Service& service, http::Request& request) {
  constexpr int kMostTries = 8;
  const std::string seen = seen_revision(request);
  for (int tries = 1;; ++tries) try {
      return change_once(service, request, seen);
    } catch (
        const ApiError& error) {  // whoever has seen no revision changes the video whatever it has become
      if (error.code != "changed_meanwhile" || !seen.empty() || tries == kMostTries) throw;
    }
}

}  // namespace

void add_change_endpoints(Endpoints& to) {
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/{id}/cancel",
                .id = "cancelVideo",
                .means = "Stops a video; with `keep`, it is finished with the frames that are there.",
                .answer = cancel_video,
                .lane = http::Lane::slow,
                .parameters = {{"keep",
                                "query",
                                {{"type", "string"}, {"enum", {"true", "false"}}},
                                "Whether the frames that are there become the video."}}});
  to.push_back(
      {.method = "POST",
       .pattern = "/v1/videos/{id}/pause",
       .id = "pauseVideo",
       .means = "Holds a video in the queue; one that is being made goes on later from where it was.",
       .answer = pause_video,
       .lane = http::Lane::slow});
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/{id}/continue",
                .id = "continueVideo",
                .means = "Lets a paused video go on.",
                .answer = continue_video});
  to.push_back(
      {.method = "PATCH",
       .pattern = "/v1/videos/{id}",
       .id = "changeVideo",
       .means = "Gives a queued video other values, or another place in the queue.",
       .answer = change_video,
       .errors = {410, 412, 422},
       .body = "ChangeVideo",
       .form = true,
       .lane = http::Lane::slow,
       .parameters = {{"If-Match",
                       "header",
                       {{"type", "string"}},
                       "The video's `revision` that the caller has seen; 412 if it is another one."}}});
}

}  // namespace tachy::web_api
