#include "web_api/asked.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/hosts/pass_on.h"

namespace tachy::web_api {

bool may_see(const Service& service, const http::Caller& caller, const std::string& owner) {
  return sees_all(service, caller) || caller.key == owner;
}

bool sees_all(const Service& service, const http::Caller& caller) { return !service.keys || caller.admin; }

queue::JobRow visible_job(Service& service, const http::Caller& caller, const std::string& id,
                          const std::string& param) {
  if (queue::is_job_id(id))
    if (auto row = service.table.find(id); row && may_see(service, caller, row->owner))
      return std::move(*row);
  throw ApiError("not_found", "there is no video with this id", param);
}

queue::JobRow job_of(Service& service, const http::Request& request) {
  return visible_job(service, request.caller, request.captures.at(0));
}

bool is_elsewhere(const Service& service, const http::Request& request, const queue::JobRow& row) {
  return service.pass_on && !request.of_host && service.pass_on->elsewhere(row);
}

std::filesystem::path local_video(Service& service, const http::Request& request, const queue::JobRow& row) {
  if (is_elsewhere(service, request, row))
    return service.pass_on->file(row, "content?variant=video", request.caller);
  std::error_code ignored;
  std::filesystem::path video = queue::JobFolder(service.files, row.id).video();
  if (!std::filesystem::is_regular_file(video, ignored))
    throw ApiError("expired", "the file of " + row.id + " is gone");
  return video;
}

void refuse_while_ending(const Service& service) {
  if (service.ending && *service.ending) {
    ApiError error("not_available", "the server is going down and takes no new jobs");
    error.headers = {{"Retry-After", "10"}};
    throw error;
  }
}

int number_asked(const http::Request& request, std::string_view name, int otherwise, int least, int most) {
  const std::string* text = request.asked(name);
  if (!text) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most)
    throw ApiError("invalid_value",
                   fmt::format("`{}`: expected a whole number from {} to {}", name, least, most),
                   std::string(name));
  return value;
}

std::string choice_asked(const http::Request& request, std::string_view name,
                         const std::vector<std::string>& choices) {
  const std::string* text = request.asked(name);
  if (!text) return choices.front();
  if (std::ranges::find(choices, *text) != choices.end()) return *text;
  throw ApiError("invalid_value", fmt::format("`{}`: expected {}", name, fmt::join(choices, " or ")),
                 std::string(name));
}

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

bool has_ended(const queue::JobRow& row) {
  return row.status == queue::Status::completed || row.status == queue::Status::failed;
}

}  // namespace tachy::web_api
