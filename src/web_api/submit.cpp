#include "web_api/submit.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/notice.h"
#include "jobs/job_json.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_full(bool of_key, double seconds) {
  ApiError error("queue_full", of_key ? "as many jobs of this key wait as may; try again later"
                                      : "the queue is full; try again later");
  const int after = static_cast<int>(std::ceil(std::clamp(seconds, 1.0, 120.0)));
  error.headers = {{"Retry-After", std::to_string(after)}};
  throw error;
}

// Returns the caller's name for a request that may come twice, or "".
std::string idempotency_of(const http::Request& request) {
  const std::string_view key = request.header("Idempotency-Key");
  if (key.size() > 255 || std::ranges::any_of(key, [](unsigned char c) { return c < 0x20 || c > 0x7e; }))
    throw ApiError("invalid_value", "`Idempotency-Key`: expected at most 255 characters of ASCII",
                   "Idempotency-Key");
  return std::string(key);
}

// Applies the server's own limit of pixels x frames to a plan that fits the machine.
void apply_limit(const Service& service, workers::Outlook& outlook) {
  if (service.most_pixel_frames <= 0 || !outlook.fits || !outlook.prepared) return;
  const VideoRequest& video = outlook.prepared->request();
  const double pixels = double(video.width.value_or(0)) * video.height.value_or(0);
  const int frames = video.frames.value_or(1);
  if (pixels * frames <= service.most_pixel_frames) return;
  const double room = std::floor((service.most_pixel_frames / pixels - 1) / 4);
  outlook.fits = false;
  outlook.prepared = nullptr;
  outlook.reason =
      fmt::format("{} frames of {}x{} are more than the {:.0f} pixels x frames that one video may have",
                  frames, *video.width, *video.height, service.most_pixel_frames);
  if (room >= 0) outlook.nearest = {{"num_frames", 4 * static_cast<int>(room) + 1}};
}

// Adds the nearest values to a message that does not have them yet: "…; size=640x368, num_frames=41 would fit".
std::string with_nearest(std::string message, const json& nearest) {
  std::string words;
  for (const auto& [field, value] : nearest.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : json_line(value);
    if (message.find(text) == std::string::npos) words += (words.empty() ? "" : ", ") + field + "=" + text;
  }
  if (words.empty()) return message;
  return message + "; " + words + " would fit";
}

}  // namespace

workers::Outlook outlook_of(Service& service, const JobRequest& request, const std::string& owner,
                            std::vector<std::string>* warnings) {
  const LineScope lines([&](std::string_view text) {
    if (warnings) warnings->emplace_back(text);
  });
  try {
    workers::Outlook outlook =
        service.foreman.outlook(request.job, request.model, request.priority, owner, request.needs);
    apply_limit(service, outlook);
    return outlook;
  } catch (const Error& e) {
    throw as_api_error(e, request.given);
  }
}

workers::Outlook outlook_or_refuse(Service& service, const JobRequest& request, const std::string& owner) {
  workers::Outlook outlook = outlook_of(service, request, owner);
  if (outlook.fits) return outlook;
  ApiError error = as_api_error(Error(ErrorCode::invalid_argument, outlook.reason), request.given);
  error.code = "over_limit";
  error.message = with_nearest(error.message, outlook.nearest);
  error.nearest = outlook.nearest;
  throw error;
}

void refuse_when_full(Service& service, const http::Request& request) {
  if (!request.header("Idempotency-Key").empty()) return;
  if (service.table.counts().queued >= service.most_queued) refuse_full(false, 10);
}

void fill_row(queue::JobRow& row, const JobRequest& job, const workers::Outlook& outlook) {
  row.priority = job.priority;
  row.model = job.model;
  row.needs = job.needs;
  row.settings = json_line(jobs::to_json(job.job));
  row.planned_seconds = outlook.seconds;
  row.facts =
      json_line(expected_facts(outlook.prepared ? outlook.prepared->request() : job.job.settings.request));
}

http::Reply submit(Service& service, const http::Request& request, JobRequest job, const json& made_from) {
  refuse_while_ending(service);
  refuse_when_full(service, request);
  const workers::Outlook outlook = outlook_or_refuse(service, job, request.caller.key);
  NewFolder folder(service.files, queue::new_job_id());
  const queue::JobFolder later(service.files, folder.id());
  place_inputs(job, folder.inputs(), later.inputs());
  job.job.output = later.video();
  job.job.drawn = job.seed_drawn;
  queue::JobRow row{.id = folder.id()};
  fill_row(row, job, outlook);
  if (!made_from.empty()) job.given[kMadeFrom] = made_from;
  if (made_from.contains("awaited")) row.awaits = queue::joined_ids(made_from.at("awaited"));
  row.request = json_line(job.given);
  return enter(service, request, std::move(row), folder, job.fingerprint, outlook.prepared);
}

http::Reply enter(Service& service, const http::Request& request, queue::JobRow row, NewFolder& folder,
                  const std::string& fingerprint, std::shared_ptr<const PreparedRequest> prepared) {
  using How = queue::Inserted::How;
  row.owner = request.caller.key, row.files = service.files_id;
  row.created_ms = service.table.now_ms();
  folder.finish(
      json_line({{"request", stored_object(row.request)}, {"settings", stored_object(row.settings)}}));
  const queue::Inserted inserted = service.table.insert(row, idempotency_of(request), fingerprint,
                                                        service.most_queued, service.most_queued_of_key);
  switch (inserted.how) {
    case How::made:
      break;
    case How::repeated:
      return video_reply(service, inserted.row);
    case How::mismatch:
      throw ApiError("idempotency_mismatch",
                     "an earlier request with this `Idempotency-Key` had another content", "Idempotency-Key");
    case How::queue_full:
      refuse_full(false, row.planned_seconds);
    case How::owner_full:
      refuse_full(true, row.planned_seconds);
  }
  folder.keep();
  if (prepared) service.foreman.remember(row.id, std::move(prepared));
  service.foreman.wake();
  return video_reply(service, inserted.row);
}

}  // namespace tachy::web_api
