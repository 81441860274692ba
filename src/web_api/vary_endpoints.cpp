// Videos that are made from a video: a remix has its settings and another prompt, an extension begins with one of its
// pictures, and an edit is denoised anew from it. No model here knows characters.
#include <algorithm>

#include "base/json_text.h"
#include "base/sha256.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/fields/size_text.h"
#include "web_api/fields/values.h"
#include "web_api/picture_of_video.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

http::Reply remix_video(Service& service, http::Request& request) {
  refuse_while_ending(service);
  const queue::JobRow source = job_of(service, request);
  if (source.kind != "video")
    throw ApiError("unsupported", "a video that was joined of others has no settings for a remix");
  if (!source.awaits.empty())
    throw ApiError("invalid_value",
                   "the video has no picture to begin with yet, since it waits for another one");
  json base = fields_of_job(source);
  base.erase("priority");
  const Fields fields = fields_of(request);
  if (!fields.values.contains("prompt"))
    throw ApiError("missing_parameter", "`prompt`: it is missing", "prompt");
  JobRequest job = parse_job(fields, request.caller, service.offers, &base);
  inherit_inputs(service, source, job);
  return submit(service, request, std::move(job), {{"remix", source.id}});
}

// Returns the id of the video to extend: {"id": …} as the client sends it, or the id itself.
std::string source_id(const json& video) {
  const json& id = video.is_object() && video.contains("id") ? video.at("id") : video;
  if (!id.is_string() || id.get_ref<const std::string&>().empty())
    throw ApiError("invalid_value", "`video`: expected {\"id\": …} of a video", "video");
  return id;
}

bool is_completed(const queue::JobRow& row) { return row.status == queue::Status::completed; }

void expect_video(const Fields& fields) {
  if (!fields.values.contains("video"))
    throw ApiError("missing_parameter", "`video`: it is missing", "video");
}

// Takes `video` out of the fields and returns the job that it means, which is completed or will be.
queue::JobRow take_source(Service& service, const http::Request& request, Fields& fields) {
  expect_video(fields);
  const json video = fields.values.at("video");
  fields.values.erase("video");
  if (video.is_object() && video.contains("file"))
    throw ApiError("unsupported", "`video`: only a video that was made here can be extended; give its id",
                   "video");
  queue::JobRow source = visible_job(service, request.caller, source_id(video), "video");
  if (source.status == queue::Status::failed)
    throw ApiError("invalid_value", "`video`: it has failed, so nothing can be made from it", "video");
  return source;
}

// Takes `from_frame` out of the fields: the picture of the source with which the extension begins, -1 for the last one.
int64_t take_frame(const queue::JobRow& source, Fields& fields) {
  if (!fields.values.contains("from_frame")) return -1;
  const Value value{.param = "from_frame", .value = fields.values.at("from_frame"), .typed = fields.typed};
  fields.values.erase("from_frame");
  const int64_t frames = stored_object(source.facts).value("frames", int64_t{0});
  return whole_number_in(value, {.least = 0, .most = std::max(0.0, static_cast<double>(frames) - 1)});
}

// Returns a picture in the size of a video that is not there yet: the request is planned with it, and gets the right one
// before it begins.
std::shared_ptr<http::SpooledFile> stand_in(const queue::JobRow& source, const Offers& offers) {
  const json size = stored_object(source.facts).value("size", json());
  if (!size.is_string())
    throw ApiError("invalid_value", "`video`: the video to extend is not completed", "video");
  const auto [width, height] = size_in({.param = "video", .value = size});
  return picture_of(RgbFrame(static_cast<int>(width), static_cast<int>(height)), "stand-in.png",
                    offers.spool);
}

// Gives the job the picture to begin with. Whoever sends a request twice means the same job, although the video has
// been completed in between: so the source is a part of the fingerprint, and the picture is not.
void begin_with(Service& service, const http::Request& request, const queue::JobRow& source, int64_t frame,
                JobRequest& job) {
  if (job.job.settings.inputs.count("image"))
    throw ApiError("invalid_value", "`input_reference`: an extension begins with a picture of the video",
                   "input_reference");
  const bool there = is_completed(source);
  const auto picture =
      there ? picture_of_video(local_video(service, request, source), frame, service.offers.spool)
            : stand_in(source, service.offers);
  Sha256 hash;
  hash.add(fmt::format("{}\nextension {} {}", job.fingerprint, source.id, frame));
  job.files.push_back(picture);
  add_inputs(job, {{"image", picture->path(), picture->sha256, there ? "input_reference" : "",
                    picture->filename()}});
  job.fingerprint = hash.hex();
}

// Returns the fields that an extension takes over. A joined video has none of its own but its size.
json base_of_extension(const queue::JobRow& source) {
  if (source.kind != "video")
    return {{"model", source.model}, {"size", stored_object(source.facts).value("size", "")}};
  json base = fields_of_job(source);
  for (const char* own : {"seed", "priority"}) base.erase(own);
  for (const char* of_video : {"strength", "keep", "outpaint"})
    base.erase(of_video);  // which is not taken over
  return base;
}

http::Reply extend_video(Service& service, http::Request& request) {
  refuse_while_ending(service);
  Fields fields = fields_of(request);
  const queue::JobRow source = take_source(service, request, fields);
  const int64_t frame = take_frame(source, fields);
  const json base = base_of_extension(source);
  JobRequest job = parse_job(fields, request.caller, service.offers, &base);
  begin_with(service, request, source, frame, job);
  json made_from = {{"extension", source.id}};
  if (frame >= 0) made_from["from_frame"] = frame;
  if (!is_completed(source)) made_from["awaited"] = {source.id};
  try {
    return submit(service, request, std::move(job), made_from);
  } catch (const ApiError& e) {  // the model's word on a first picture
    if (e.code != "unsupported" && e.param != "input_reference") throw;
    throw ApiError("unsupported",
                   "this model begins with no picture, so it cannot extend a video: " + e.message);
  }
}

// Says whether `video` names a video of this server. A file, a data URL and an address are what create takes.
bool names_video(const Fields& fields) {
  const json& video = fields.values.at("video");
  if (video.is_object()) return video.contains("id");
  return video.is_string() && video.get_ref<const std::string&>().starts_with("video_");
}

http::Reply edit_video(Service& service, http::Request& request) {
  refuse_while_ending(service);
  Fields fields = fields_of(request);
  expect_video(fields);
  if (!names_video(fields))
    return submit(service, request, parse_job(fields, request.caller, service.offers));
  const queue::JobRow source = take_source(service, request, fields);
  if (!is_completed(source))
    throw ApiError("invalid_value", "`video`: the video to change is not completed", "video");
  const json base = {{"model", source.model}};
  JobRequest job = parse_job(fields, request.caller, service.offers, &base);
  const std::filesystem::path video = local_video(service, request, source);
  add_inputs(job, {{"video", video, jobs::sha256_of(video.string(), "video"), "video", source.id + ".mp4"}});
  return submit(service, request, std::move(job), {{"edit", source.id}});
}

http::Reply no_characters(Service&, http::Request&) {
  throw ApiError("unsupported", "no model of this server knows characters");
}

}  // namespace

void add_vary_endpoints(Endpoints& to) {
  to.push_back(
      {.method = "POST",
       .pattern = "/v1/videos/{id}/remix",
       .id = "remixVideo",
       .means = "Makes a video again with another prompt; size, length and seed stay unless they are given.",
       .answer = remix_video,
       .errors = {404, 410, 422, 429},
       .body = "RemixVideo",
       .form = true,
       .lane = http::Lane::slow});
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/extensions",
                .id = "extendVideo",
                .means = "Makes a video that begins with the last or another picture of another one, which "
                         "need not be completed yet.",
                .answer = extend_video,
                .errors = {404, 410, 422, 429},
                .body = "ExtendVideo",
                .form = true,
                .lane = http::Lane::slow});
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/edits",
                .id = "editVideo",
                .means =
                    "Makes a video from another one, a file or one of this server, which is denoised anew "
                    "from `strength` on.",
                .answer = edit_video,
                .errors = {404, 410, 422, 429},
                .body = "EditVideo",
                .form = true,
                .lane = http::Lane::slow});
  to.push_back({.method = "POST",
                .pattern = "/v1/videos/characters",
                .id = "createCharacter",
                .means = "Is not supported by the models that there are.",
                .answer = no_characters,
                .body = "AnyFields",
                .form = true});
  to.push_back({.method = "GET",
                .pattern = "/v1/videos/characters/{id}",
                .id = "retrieveCharacter",
                .means = "Is not supported by the models that there are.",
                .answer = no_characters});
}

}  // namespace tachy::web_api
