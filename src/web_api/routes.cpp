// The table of all addresses, and the routes that are made of it.
#include "web_api/api_error.h"
#include "web_api/endpoint.h"

namespace tachy::web_api {
namespace {

// Takes the folders of this machine out of a message: a caller learns the names of files, not where they lie.
std::string without_folders(const Service& service, std::string text) {
  std::vector<std::filesystem::path> folders = {service.files, service.offers.loras};
  for (const workers::ServedModel& model : service.offers.models.all())
    folders.push_back(model.path.parent_path());
  for (const std::filesystem::path& folder : folders) {
    if (!folder.is_absolute() || folder == folder.root_path()) continue;
    const std::string beginning = folder.string() + "/";
    for (size_t at = text.find(beginning); at != text.npos; at = text.find(beginning, at))
      text.erase(at, beginning.size());
  }
  return text;
}

http::Reply answer_of(const Endpoint& endpoint, Service& service, http::Request& request) {
  try {
    return endpoint.answer(service, request);
  } catch (ApiError& e) {
    e.message = without_folders(service, e.message);
    throw;
  } catch (const Error& e) {
    throw Error(e.code(), without_folders(service, e.message()), e.where());
  }
}

}  // namespace

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
  add_key_endpoints(all);
  add_ticket_endpoint(all);
  add_server_endpoints(all);
  return all;
}

void add_routes(http::Router& router, Service& service) {
  for (const Endpoint& endpoint : all_endpoints()) {
    http::Route route{
        .method = endpoint.method,
        .pattern = endpoint.pattern,
        .handler = [&service,
                    endpoint](http::Request& request) { return answer_of(endpoint, service, request); },
        .lane = endpoint.lane,
        .open = endpoint.open};
    if (const auto at_once = endpoint.at_once)
      route.at_once = [&service, at_once](http::Request& request) { return at_once(service, request); };
    router.add(std::move(route));
  }
}

}  // namespace tachy::web_api
