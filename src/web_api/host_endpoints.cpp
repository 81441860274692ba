// Tells of the servers that share the queue, and of what the holders of keys have used on all of them.
#include <fmt/chrono.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/json_text.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/job_files.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr int64_t kUsualDays = 30;

// Returns the day since 1970 in the query, as YYYY-MM-DD.
int64_t day_asked(const http::Request& request, const char* name, int64_t otherwise) {
  const std::string* const text = request.asked(name);
  if (!text) return otherwise;
  int parts[3] = {};
  const char* at = text->data();
  const char* const end = at + text->size();
  bool good = text->size() == 10;
  for (int i = 0; good && i < 3; ++i) {
    const auto [rest, error] = std::from_chars(at, end, parts[i]);
    good = error == std::errc() && (i == 2 ? rest == end : rest != end && *rest == '-') && parts[i] > 0;
    at = rest + 1;
  }
  using namespace std::chrono;
  const year_month_day date{year(parts[0]), month(static_cast<unsigned>(parts[1])),
                            day(static_cast<unsigned>(parts[2]))};
  if (!good || !date.ok())
    throw ApiError("invalid_value", fmt::format("`{}`: expected a day such as 2026-11-27", name), name);
  return sys_days(date).time_since_epoch().count();
}

std::string date_of(int64_t day) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time_t{day * 86'400}));
}

http::Reply list_usage(Service& service, http::Request& request) {
  const int64_t today = queue::day_of_ms(service.table.now_ms());
  const int64_t last = day_asked(request, "to", today);
  const int64_t first = day_asked(request, "from", last - kUsualDays + 1);
  const std::string* const owner = sees_all(service, request.caller) ? nullptr : &request.caller.key;
  json data = json::array();
  for (const queue::UsageRow& row : service.table.usage(owner, first, last))
    data.push_back({{"object", "usage"},
                    {"date", date_of(row.day)},
                    {"key", row.owner},
                    {"model", row.model},
                    {"videos", row.jobs},
                    {"frames", row.used.frames},
                    {"pixels", row.used.pixels},
                    {"seconds", row.used.seconds}});
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

// The addresses of hosts are nobody's business.
http::Reply list_hosts(Service& service, http::Request& request) {
  if (!sees_all(service, request.caller))
    throw ApiError("forbidden", "only a key with the right `admin` may see the hosts");
  json data = json::array();
  for (const queue::HostRow& host : service.table.hosts())
    data.push_back({{"id", host.name},
                    {"object", "host"},
                    {"alive", host.alive},
                    {"silent_seconds", host.silent_seconds},
                    {"shares_files", host.files == service.files_id},
                    {"about", stored_object(host.about)}});
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

// Other hosts alone may ask for an input, since it is not the caller's file but one of the job's folder.
http::Reply passed_input(Service& service, http::Request& request) {
  const std::string& name = request.captures.at(1);
  if (!request.of_host || !request.caller.admin || !queue::is_job_id(request.captures.at(0)) ||
      name.find_first_of("/\\") != name.npos || name.starts_with("."))
    throw ApiError("not_found", "there is no such address");
  const std::filesystem::path file = queue::JobFolder(service.files, request.captures.at(0)).inputs() / name;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) throw ApiError("not_found", "there is no such input");
  http::Reply reply;
  reply.headers = {{"Content-Type", "application/octet-stream"}};
  reply.body = http::FileBody{file, "\"" + name + "\""};
  return reply;
}

// The table decides: a job that is in it keeps its files.
http::Reply passed_removal(Service& service, http::Request& request) {
  const std::string& id = request.captures.at(0);
  if (!request.of_host || !request.caller.admin || !queue::is_job_id(id) || service.table.find(id))
    throw ApiError("not_found", "there is no such address");
  service.book.forget(id);
  remove_folder(queue::JobFolder(service.files, id).path);
  return http::json_reply(200, json_line({{"id", id}, {"deleted", true}, {"object", "video.deleted"}}));
}

Parameter day_parameter(const char* name, const char* means) {
  return {name, "query", {{"type", "string"}, {"format", "date"}}, means};
}

}  // namespace

void add_host_endpoints(Endpoints& to) {
  to.push_back({.method = "GET",
                .pattern = "/v1/usage",
                .id = "listUsage",
                .means = "Says what the caller has used, by day and model; an administrator sees all keys.",
                .answer = list_usage,
                .reply = "UsageList",
                .parameters = {day_parameter("from", "The first day (default: 30 days up to the last one)."),
                               day_parameter("to", "The last day (default: today).")}});
  to.push_back({.method = "GET",
                .pattern = "/v1/hosts",
                .id = "listHosts",
                .means = "Lists the servers that share the queue, for administrators.",
                .answer = list_hosts,
                .reply = "HostList"});
  to.push_back({.method = "GET",
                .pattern = "/v1/hosts/jobs/{id}/inputs/{name}",
                .id = "passInputOn",
                .means = "Sends an input of a video to another host of the queue.",
                .answer = passed_input,
                .reply = "application/octet-stream",
                .errors = {206, 304, 416}});
  to.push_back({.method = "DELETE",
                .pattern = "/v1/hosts/jobs/{id}",
                .id = "passRemovalOn",
                .means = "Removes the files of a video that another host of the queue has deleted.",
                .answer = passed_removal,
                .reply = "DeletedVideo",
                .errors = {404},
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
