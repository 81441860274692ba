// Asking for a video, and asking what one would take.
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/submit.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

http::Reply create_video(Service& service, http::Request& request) {
  refuse_while_ending(service);
  return submit(service, request, parse_job(fields_of(request), request.caller, service.offers));
}

// Returns the size, rate and length of the given videos, by which a later plan can be asked without sending them.
json videos_of(const VideoRequest& request) {
  json out = json::object();
  for (const auto& [field, video] :
       {std::pair{"video", request.video.get()}, std::pair{"control_video", request.control_video.get()},
        std::pair{"mask_video", request.mask_video.get()}})
    if (video)
      out[field] = {
          {"width", video->width}, {"height", video->height}, {"fps", video->fps}, {"frames", video->frames}};
  return out;
}

http::Reply plan_video(Service& service, http::Request& request) {
  Fields fields = fields_of(request);
  fields.plans = true;
  const JobRequest job = parse_job(fields, request.caller, service.offers);
  std::vector<std::string> warnings;
  const workers::Outlook outlook = outlook_of(service, job, request.caller.key, &warnings);
  const json plan = {{"object", "video.plan"},
                     {"model", job.model},
                     {"gpu_bytes", outlook.gpu_bytes},
                     {"host_bytes", outlook.host_bytes},
                     {"seconds", outlook.seconds},
                     {"seconds_to_preview", outlook.seconds_to_preview},
                     {"queue_position", outlook.queue_position},
                     {"wait_seconds", outlook.wait_seconds},
                     {"waits_for_world", outlook.world_open},
                     {"fits", outlook.fits},
                     {"reason", outlook.fits ? json() : json(outlook.reason)},
                     {"nearest", outlook.fits ? json() : outlook.nearest},
                     {"warnings", warnings},
                     {"videos", videos_of(job.job.settings.request)}};
  return http::json_reply(200, json_line(plan));
}

Parameter idempotency_key() {
  return {"Idempotency-Key",
          "header",
          {{"type", "string"}, {"maxLength", 255}},
          "A request that is sent again within 24 hours under the same key gives the same video."};
}

}  // namespace

void add_create_endpoints(Endpoints& to) {
  to.push_back({.method = "POST",
                .pattern = "/v1/videos",
                .id = "createVideo",
                .means = "Puts a video into the queue.",
                .answer = create_video,
                .errors = {404, 422, 429},
                .body = "CreateVideo",
                .form = true,
                .lane = http::Lane::slow,
                .parameters = {idempotency_key()}});
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/plan",
                .id = "planVideo",
                .means = "Says what memory and time a video would take, and whether it fits.",
                .answer = plan_video,
                .reply = "Plan",
                .errors = {404, 422},
                .body = "CreateVideo",
                .form = true,
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
