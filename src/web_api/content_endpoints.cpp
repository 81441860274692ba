// The files of a finished job: the video, a thumbnail, a sheet of small pictures; and links to them for those who
// cannot send a key.
#include <mutex>

#include "base/json_text.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/file_type.h"
#include "web_api/hosts/pass_on.h"
#include "web_api/links.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"
#include "workers/derived_files.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::vector<std::string> kVariants = {"video", "thumbnail", "spritesheet"};

// Throws unless the job has a file to send. `video` is "" where another host has it.
void expect_file(const queue::JobRow& row, const fs::path& video, int64_t now_ms) {
  if (row.status == queue::Status::failed)
    throw ApiError("job_failed", "the video was not made: " + row.error.message);
  if (row.status != queue::Status::completed) {
    ApiError error("not_ready",
                   fmt::format("the video is not ready: it is {}", queue::to_string(row.status)));
    error.headers = {{"x-should-retry", "false"}};
    throw error;
  }
  std::error_code ignored;
  if ((row.expires_ms > 0 && row.expires_ms <= now_ms) ||
      (!video.empty() && !fs::is_regular_file(video, ignored)))
    throw ApiError("expired", "the video's file is not kept any longer");
}

// Makes the pictures that are made on the first request, one request after another.
void make_missing(const queue::JobFolder& folder, const fs::path& file,
                  void (*make)(const queue::JobFolder&)) {
  static std::mutex mutex;
  std::error_code ignored;
  if (fs::exists(file, ignored)) return;
  const std::lock_guard lock(mutex);
  if (!fs::exists(file, ignored)) make(folder);
}

// The video's hash if the job's facts have it, else its id and size, which change whenever its content does.
std::string etag_of(const queue::JobRow& row, const fs::path& file, const std::string& variant) {
  const json facts = stored_object(row.facts);
  if (variant == "video" && facts.contains("sha256"))
    return "\"" + facts.at("sha256").get<std::string>() + "\"";
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return fmt::format("\"{}-{}-{}\"", row.id, variant, error ? 0 : bytes);
}

http::Reply content_reply(const queue::JobRow& row, const std::string& variant, const fs::path& file) {
  const bool video = variant == "video";
  const std::string name = row.id + (video ? ".mp4" : "-" + variant + ".jpg");
  http::Reply reply;
  reply.headers = {{"Content-Type", video ? "video/mp4" : "image/jpeg"},
                   {"Content-Disposition", "attachment; filename=\"" + name + "\""},
                   {"Cache-Control", "private, no-cache"}};
  reply.body = http::FileBody{file, etag_of(row, file, variant)};
  return reply;
}

http::Reply video_content(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  const std::string variant = choice_asked(request, "variant", kVariants);
  const queue::JobFolder folder(service.files, row.id);
  const bool far = is_elsewhere(service, request, row);
  expect_file(row, far ? fs::path() : folder.video(), service.table.now_ms());
  if (far)
    return content_reply(row, variant,
                         service.pass_on->file(row, "content?variant=" + variant, request.caller));
  fs::path file = folder.video();
  if (variant == "thumbnail") make_missing(folder, file = folder.thumbnail(), workers::make_thumbnail);
  if (variant == "spritesheet") make_missing(folder, file = folder.spritesheet(), workers::make_spritesheet);
  return content_reply(row, variant, file);
}

http::Reply video_input(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  const std::string& field = request.captures.at(1);
  fs::path file = input_file(service, row, field);
  if (file.empty()) throw ApiError("not_found", "the video was given no file of this name");
  if (is_elsewhere(service, request, row))
    file = service.pass_on->file(row, "inputs/" + file.filename().string(), {.key = "", .admin = true});
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) throw ApiError("expired", "the file is not kept any longer");
  const std::string sha256 = stored_object(row.request).at(field).at("sha256");
  http::Reply reply;
  reply.headers = {{"Content-Type", type_of_file(file)},
                   {"Content-Disposition", "attachment"},
                   {"Cache-Control", "private, no-cache"}};
  reply.body = http::FileBody{file, "\"" + sha256 + "\""};
  return reply;
}

// A relative address, since only the caller knows under which name it reaches the server.
http::Reply content_link(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  const std::string variant = choice_asked(request, "variant", kVariants);
  const int64_t expires = service.table.now_ms() / 1000 + kLinkSeconds;
  const std::string url = fmt::format("/v1/videos/{}/content?variant={}&{}", row.id, variant,
                                      signed_query(service.link_secret, row.id, expires));
  return http::json_reply(200, json_line({{"object", "video.link"}, {"url", url}, {"expires_at", expires}}));
}

Parameter variant_parameter() {
  return {"variant",
          "query",
          {{"type", "string"}, {"enum", kVariants}, {"default", "video"}},
          "Which file is meant."};
}

}  // namespace

void add_content_endpoints(Endpoints& to) {
  to.push_back(
      {.method = "GET",
       .pattern = "/v1/videos/{id}/content",
       .id = "downloadVideoContent",
       .means = "Sends a completed video, its thumbnail or its sheet of small pictures; `Range` is heeded.",
       .answer = video_content,
       .reply = "video/mp4",
       .errors = {206, 304, 410, 416},
       .lane = http::Lane::slow,
       .parameters = {variant_parameter()}});
  to.push_back({.method = "GET",
                .pattern = "/v1/videos/{id}/inputs/{name}",
                .id = "downloadVideoInput",
                .means = "Sends the picture or sound that a video was given as this field of its `settings`.",
                .answer = video_input,
                .reply = "application/octet-stream",
                .errors = {206, 304, 410, 416},
                .lane = http::Lane::slow});
  to.push_back({.method = "GET",
                .pattern = "/v1/videos/{id}/link",
                .id = "linkVideoContent",
                .means = "Returns an address of the content that needs no key, for ten minutes.",
                .answer = content_link,
                .reply = "Link",
                .parameters = {variant_parameter()}});
}

}  // namespace tachy::web_api
