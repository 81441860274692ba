// The description of the interface as OpenAPI 3.1, made from the table of endpoints: every parameter, body, status
// and schema.
#include <set>

#include "api/tachyscope.h"
#include "web_api/endpoint.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

json ref(const std::string& schema) { return {{"$ref", "#/components/schemas/" + schema}}; }

bool is_media_type(std::string_view reply) { return reply.find('/') != reply.npos; }

// Bodies of bytes have no schema but their type, nor has a stream of events: this version has no words for one.
json content_of(const std::string& reply) {
  if (!is_media_type(reply)) return {{"application/json", {{"schema", ref(reply)}}}};
  json content = json::object();
  if (reply == "text/plain")
    content[reply] = {{"schema", {{"type", "string"}}}};
  else
    content[reply] = json::object();
  if (reply == "video/mp4") content["image/jpeg"] = json::object();  // its variants
  if (reply == "application/octet-stream")                           // an input, as it was given
    for (const char* type : {"image/png", "image/jpeg", "image/webp", "audio/wav"})
      content[type] = json::object();
  return content;
}

const char* status_words(int status) {
  switch (status) {
    case 206:
      return "A range of it.";
    case 304:
      return "It has not changed.";
    case 400:
      return "The request is wrong; `param` names the field.";
    case 401:
      return "The key is missing or wrong.";
    case 403:
      return "Host or Origin is foreign, or the key may not do this.";
    case 404:
      return "There is no such thing, or it belongs to somebody else, or it is not ready.";
    case 405:
      return "The address has no such method.";
    case 408:
      return "The request took too long to come.";
    case 410:
      return "It is not kept any longer.";
    case 412:
      return "It is no longer what `If-Match` names.";
    case 413:
      return "The body is too large, or has too many parts.";
    case 415:
      return "The body is of a type that is not read here.";
    case 416:
      return "The range lies outside of the file.";
    case 422:
      return "The request is right but asks for more than fits; `nearest` has what would.";
    case 429:
      return "The queue is full.";
    case 431:
      return "The header is too large.";
    case 500:
      return "Something went wrong here.";
    default:
      return "The server cannot do this now.";
  }
}

json responses_of(const Endpoint& endpoint) {
  std::set<int> statuses(endpoint.errors.begin(), endpoint.errors.end());
  statuses.insert({400, 403, 405, 408, 431, 500, 503});
  if (!endpoint.open) statuses.insert(401);
  if (std::string_view(endpoint.pattern).find('{') != std::string_view::npos) statuses.insert(404);
  statuses.insert({413, 415});  // also a body where none is taken may be refused by its size or type
  json responses = {{"200", {{"description", "It is done."}, {"content", content_of(endpoint.reply)}}}};
  for (const int status : statuses) {
    json& response = responses[std::to_string(status)];
    response = {{"description", status_words(status)}};
    if (status == 206) response["content"] = content_of(endpoint.reply);
    if (status >= 400) response["content"] = content_of("Error");
  }
  if (statuses.contains(429))
    responses["429"]["headers"] = {{"Retry-After", {{"schema", {{"type", "integer"}}}}}};
  if (std::string_view(endpoint.reply) == "Video")
    responses["200"]["headers"] = {{"openai-poll-after-ms", {{"schema", {{"type", "integer"}}}}}};
  return responses;
}

// The {names} in a pattern, which are required, and what stands in the query and in headers.
json parameters_of(const Endpoint& endpoint) {
  json parameters = json::array();
  const std::string pattern = endpoint.pattern;
  for (size_t at = pattern.find('{'); at != pattern.npos; at = pattern.find('{', at + 1)) {
    const std::string name = pattern.substr(at + 1, pattern.find('}', at) - at - 1);
    json schema = {{"type", "string"}, {"minLength", 1}};
    if (name == "number") schema = {{"type", "integer"}, {"minimum", 0}};
    parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", std::move(schema)}});
  }
  for (const Parameter& parameter : endpoint.parameters)
    parameters.push_back({{"name", parameter.name},
                          {"in", parameter.in},
                          {"required", false},
                          {"description", parameter.means},
                          {"schema", parameter.schema}});
  return parameters;
}

json body_of(const Endpoint& endpoint) {
  const json schema = {{"schema", ref(endpoint.body)}};
  json content = {{"application/json", schema}};
  if (endpoint.form) content["multipart/form-data"] = schema;
  return {{"required", true}, {"content", std::move(content)}};
}

json operation_of(const Endpoint& endpoint) {
  json operation = {{"operationId", endpoint.id},
                    {"summary", endpoint.means},
                    {"parameters", parameters_of(endpoint)},
                    {"responses", responses_of(endpoint)}};
  if (endpoint.body) operation["requestBody"] = body_of(endpoint);
  // Without keys a server asks for none: {} is the other choice.
  operation["security"] = json::array({json::object()});
  if (!endpoint.open) operation["security"].push_back({{"key", json::array()}});
  return operation;
}

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

json describe(const Endpoints& endpoints) {
  json paths = json::object();
  for (const Endpoint& endpoint : endpoints)
    paths[endpoint.pattern][in_small_letters(endpoint.method)] = operation_of(endpoint);
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Tachyscope"},
            {"version", version()},
            {"description",
             "Videos made by the models of this server. The openai client's `videos` work with it."}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", description_schemas()},
            {"securitySchemes",
             {{"key",
               {{"type", "http"},
                {"scheme", "bearer"},
                {"description", "A server with keys asks for one of them; an open server ignores it."}}}}}}}};
}

}  // namespace tachy::web_api
