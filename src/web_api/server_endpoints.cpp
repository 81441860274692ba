// The server's own state: whether it lives, whether it can take a job, its metrics, and the description of the
// interface.
#include "api/tachyscope.h"
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

http::Reply server_health(Service&, http::Request&) {
  return http::json_reply(200, json_line({{"status", "ok"}, {"version", version()}}));
}

http::Reply server_ready(Service& service, http::Request&) {
  refuse_while_ending(service);
  std::string why;
  if (!service.foreman.ready(&why)) {
    ApiError error("not_available", why.empty() ? "the default model is not open yet" : why);
    error.headers = {{"Retry-After", "2"}};
    throw error;
  }
  return http::json_reply(200, json_line({{"status", "ready"}, {"version", version()}}));
}

http::Reply server_metrics(Service& service, http::Request&) {
  if (!service.metrics) throw ApiError("not_found", "this server keeps no metrics");
  http::Reply reply = http::text_reply(200, service.metrics());
  std::erase_if(reply.headers, [](const auto& header) { return header.first == "Content-Type"; });
  reply.headers.emplace_back("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  return reply;
}

http::Reply description(Service&, http::Request&) {
  static const std::string text = json_text(describe(all_endpoints()), 1);
  return http::json_reply(200, text);
}

}  // namespace

void add_server_endpoints(Endpoints& to) {
  to.push_back({.method = "GET",
                .pattern = "/health",
                .id = "health",
                .means = "Answers as soon as the server listens.",
                .answer = server_health,
                .reply = "Health",
                .open = true});
  to.push_back({.method = "GET",
                .pattern = "/ready",
                .id = "ready",
                .means = "Says whether the default model can take a job.",
                .answer = server_ready,
                .reply = "Health",
                .open = true});
  to.push_back({.method = "GET",
                .pattern = "/metrics",
                .id = "metrics",
                .means = "Counters and times of the server in Prometheus's text format.",
                .answer = server_metrics,
                .reply = "text/plain",
                .errors = {404}});
  to.push_back({.method = "GET",
                .pattern = "/openapi.json",
                .id = "describe",
                .means = "This description.",
                .answer = description,
                .reply = "Description"});
}

}  // namespace tachy::web_api
