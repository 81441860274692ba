// Looking at videos and removing them: retrieve, list, delete.
#include "base/json_text.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/hosts/pass_on.h"
#include "web_api/job_files.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

http::Reply retrieve_video(Service& service, http::Request& request) {
  return video_reply(service, job_of(service, request));
}

// Whatever is not in memory, or not for this caller, is left to retrieve_video().
std::optional<http::Reply> retrieve_known_video(Service& service, http::Request& request) {
  const auto row = service.table.known(request.captures.at(0));
  if (!row || !may_see(service, request.caller, row->owner)) return std::nullopt;
  const auto live = has_ended(*row) ? workers::Live{} : service.foreman.live_now(*row);
  if (!live) return std::nullopt;
  return video_reply(*row, *live, service.texts->of(row, *live));
}

// Those that have not ended have an order of their own, so they come without pages, but more at once.
queue::Page active_page(Service& service, const http::Request& request, const std::string* owner) {
  for (const char* name : {"after", "order"})
    if (request.asked(name))
      throw ApiError("invalid_value",
                     fmt::format("`{}`: the list of active videos has one order and no pages", name), name);
  return service.table.active(owner, number_asked(request, "limit", 20, 1, 1000));
}

queue::Page page_asked(Service& service, const http::Request& request, const std::string* owner) {
  if (choice_asked(request, "status", {"any", "active"}) == "active")
    return active_page(service, request, owner);
  const int limit = number_asked(request, "limit", 20, 1, 100);
  const bool ascending = choice_asked(request, "order", {"desc", "asc"}) == "asc";
  const std::string* after = request.asked("after");
  if (after) visible_job(service, request.caller, *after, "after");
  return service.table.list(owner, after ? *after : "", limit, ascending);
}

http::Reply list_videos(Service& service, http::Request& request) {
  const std::string* owner = sees_all(service, request.caller) ? nullptr : &request.caller.key;
  const queue::Page page = page_asked(service, request, owner);
  json data = json::array();
  for (const queue::JobRow& row : page.rows)
    data.push_back(video_object(row, has_ended(row) ? workers::Live{} : service.foreman.live(row)));
  json list = {{"object", "list"}, {"has_more", page.has_more}};
  list["first_id"] = data.empty() ? json() : data.front().at("id");
  list["last_id"] = data.empty() ? json() : data.back().at("id");
  list["data"] = std::move(data);
  return http::json_reply(200, json_line(list));
}

// The row goes first: if the process dies in between, a folder without a row is left, which tidy() removes.
http::Reply delete_video(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  if (!has_ended(row)) {
    service.table.wish(row.id, queue::Wish::cancel, std::nullopt);
    service.foreman.stop_job(row.id);
  }
  service.table.remove(row.id);
  service.book.forget(row.id);
  service.foreman.wake();
  remove_folder(queue::JobFolder(service.files, row.id).path);
  if (is_elsewhere(service, request, row)) service.pass_on->remove(row);
  if (service.removed) service.removed(row.id);
  return http::json_reply(200, json_line({{"id", row.id}, {"deleted", true}, {"object", "video.deleted"}}));
}

}  // namespace

void add_video_endpoints(Endpoints& to) {
  to.push_back(
      {.method = "GET",
       .pattern = "/v1/videos",
       .id = "listVideos",
       .means = "Lists the caller's videos, the newest first.",
       .answer = list_videos,
       .reply = "VideoList",
       .errors = {404},
       .parameters = {
           {"after", "query", {{"type", "string"}}, "The id of the last video of the page before."},
           {"limit",
            "query",
            {{"type", "integer"}, {"minimum", 1}, {"maximum", 1000}, {"default", 20}},
            "How many videos a page has at most: up to 100, of active ones up to 1000."},
           {"order", "query", {{"type", "string"}, {"enum", {"asc", "desc"}}}, "By time of creation."},
           {"status",
            "query",
            {{"type", "string"}, {"enum", {"any", "active"}}},
            "With `active`, those that have not ended: under way first, then as they wait, without "
            "pages."}}});
  to.push_back({.method = "GET",
                .pattern = "/v1/videos/{id}",
                .id = "retrieveVideo",
                .means = "Returns a video's state.",
                .answer = retrieve_video,
                .at_once = retrieve_known_video});
  to.push_back({.method = "DELETE",
                .pattern = "/v1/videos/{id}",
                .id = "deleteVideo",
                .means = "Stops a video if it is being made, and removes it with its files.",
                .answer = delete_video,
                .reply = "DeletedVideo",
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
