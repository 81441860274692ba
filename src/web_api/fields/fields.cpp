// The body of a request as one JSON object.
#include <fmt/format.h>

#include <algorithm>

#include "web_api/fields/form_fields.h"
#include "web_api/fields/json_body.h"
#include "web_api/job_request.h"

namespace tachy::web_api {
namespace {

// Returns "application/json" of "Application/JSON; charset=utf-8".
std::string media_type(std::string_view header) {
  std::string out(header.substr(0, header.find(';')));
  while (out.ends_with(' ') || out.ends_with('\t')) out.pop_back();
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

bool is_json(const std::string& type) {
  return type.empty() || type == "application/json" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

}  // namespace

Fields fields_of(const http::Request& request) {
  Fields out;
  if (request.body_kind == http::Request::Body::multipart) {
    out.values = form_fields(request.parts, out.files);
    return out;
  }
  out.typed = true;
  if (request.body_kind == http::Request::Body::none) return out;
  const std::string type = media_type(request.header("Content-Type"));
  if (!is_json(type))
    throw ApiError("unsupported_media_type", "send the body as application/json or multipart/form-data");
  out.values = parse_strict_json(request.body, "the body");
  if (!out.values.is_object())
    throw ApiError("invalid_value", fmt::format("the body should be a JSON object, got {}",
                                                out.values.is_array() ? "a list" : out.values.type_name()));
  return out;
}

}  // namespace tachy::web_api
