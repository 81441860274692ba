// The event stream of a job, and the previews that its events name.
#include <charconv>

#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/hosts/pass_on.h"
#include "web_api/job_feed.h"

namespace tachy::web_api {
namespace {

// Returns the whole number in a text, or nothing.
std::optional<int64_t> count_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// A process that was killed between the end of a job and the event that tells of it has left the book without one.
void complete_book(Service& service, const queue::JobRow& row) {
  if (!has_ended(row) || service.book.ended(row.id)) return;
  if (row.status == queue::Status::completed)
    service.book.add(row.id, "done", {{"url", "/v1/videos/" + row.id + "/content"}});
  else
    service.book.add(row.id, "failed",
                     {{"error", {{"code", row.error.code}, {"message", row.error.message}}}});
}

http::Reply video_events(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  int64_t seen = 0;
  if (const std::string_view text = request.header("Last-Event-ID"); !text.empty()) {
    const auto number = count_in(text);
    if (!number)
      throw ApiError("invalid_value", "`Last-Event-ID`: expected the number of an event", "Last-Event-ID");
    seen = *number;
  }
  const bool far = is_elsewhere(service, request, row);
  if (!far) complete_book(service, row);
  // Another host counted those that this reader has seen, and is gone: those of this host are told from the first on.
  if (!far && seen > service.book.last(row.id)) seen = 0;
  http::Reply reply;
  reply.headers = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}};
  if (far || (service.pass_on && !request.of_host && service.pass_on->may_move(row)))
    reply.body = service.pass_on->events(row, seen, request.caller, [&service, id = row.id](int64_t last) {
      std::string text;
      for (const queue::Event& event : service.book.since(id, last)) text += event_text(event);
      return text;
    });
  else
    reply.body = std::make_shared<JobFeed>(service.book, row.id, seen);
  return reply;
}

http::Reply video_preview(Service& service, http::Request& request) {
  const queue::JobRow row = job_of(service, request);
  const auto number = count_in(request.captures.at(1));
  std::filesystem::path file;
  std::error_code ignored;
  const bool known = number && *number <= 1'000'000;
  if (known && is_elsewhere(service, request, row))
    file = service.pass_on->file(row, fmt::format("previews/{}", *number), request.caller);
  else if (known)
    file = queue::JobFolder(service.files, row.id).preview(static_cast<int>(*number));
  if (file.empty() || !std::filesystem::is_regular_file(file, ignored))
    throw ApiError("not_found", "there is no preview with this number");
  http::Reply reply;
  reply.headers = {{"Content-Type", "image/jpeg"}, {"Cache-Control", "private, max-age=3600"}};
  reply.body = http::FileBody{file, fmt::format("\"{}-preview-{}\"", row.id, *number)};
  return reply;
}

}  // namespace

void add_event_endpoints(Endpoints& to) {
  to.push_back(
      {.method = "GET",
       .pattern = "/v1/videos/{id}/events",
       .id = "streamVideoEvents",
       .means = "Streams a video's events from the first one on: queued, progress, preview, done, failed.",
       .answer = video_events,
       .reply = "text/event-stream",
       .parameters = {{"Last-Event-ID",
                       "header",
                       {{"type", "integer"}, {"minimum", 0}},
                       "The number of the last event that was seen; those after it are sent."}}});
  to.push_back({.method = "GET",
                .pattern = "/v1/videos/{id}/previews/{number}",
                .id = "retrieveVideoPreview",
                .means = "Sends a small picture of a video that is being made.",
                .answer = video_preview,
                .reply = "image/jpeg",
                .errors = {206, 304, 416, 503},
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
