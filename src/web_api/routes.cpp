// The table of all addresses, and the routes that are made of it.
#include "web_api/endpoint.h"

namespace tachy::web_api {

Endpoints all_endpoints() {
  Endpoints all;
  add_create_endpoints(all);
  add_vary_endpoints(all);
  add_join_endpoint(all);
  add_video_endpoints(all);
  add_change_endpoints(all);
  add_content_endpoints(all);
  add_event_endpoints(all);
  add_preset_endpoints(all);
  add_offer_endpoints(all);
  add_server_endpoints(all);
  return all;
}

void add_routes(http::Router& router, Service& service) {
  for (const Endpoint& endpoint : all_endpoints()) {
    const auto answer = endpoint.answer;
    router.add({.method = endpoint.method,
                .pattern = endpoint.pattern,
                .handler = [&service, answer](http::Request& request) { return answer(service, request); },
                .lane = endpoint.lane,
                .open = endpoint.open});
  }
}

}  // namespace tachy::web_api
