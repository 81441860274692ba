// The caller, what its key allows, and, for administrators, the holders of the other keys. Neither answer says
// anything of the keys themselves.
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

json key_object(const http::Caller& caller, bool keys) {
  return {{"object", "key"},
          {"name", keys ? json(caller.key) : json()},
          {"priority", caller.priority},
          {"admin", caller.admin}};
}

http::Reply retrieve_key(Service& service, http::Request& request) {
  json object = key_object(request.caller, service.keys);
  object["keys"] = service.keys;
  object["admin"] = sees_all(service, request.caller);
  http::Reply reply = http::json_reply(200, json_line(object));
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

http::Reply list_keys(Service& service, http::Request& request) {
  if (!sees_all(service, request.caller))
    throw ApiError("forbidden", "only a key with the right `admin` may see who has keys");
  json data = json::array();
  for (const http::Caller& holder : service.holders) data.push_back(key_object(holder, true));
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

}  // namespace

void add_key_endpoints(Endpoints& to) {
  to.push_back({.method = "GET",
                .pattern = "/v1/key",
                .id = "retrieveKey",
                .means = "Says who the caller is and what the key allows.",
                .answer = retrieve_key,
                .reply = "Key"});
  to.push_back({.method = "GET",
                .pattern = "/v1/keys",
                .id = "listKeys",
                .means = "Lists who has a key and what each allows; for administrators.",
                .answer = list_keys,
                .reply = "KeyList"});
}

}  // namespace tachy::web_api
