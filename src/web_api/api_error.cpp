// The table of the interface's errors: a code decides the HTTP status and the type. No code has the status 409,
// since clients of this field repeat a request that gets it.
#include "web_api/api_error.h"

#include <span>

#include "base/error.h"
#include "base/full_disk.h"
#include "base/json_text.h"
#include "http/multipart.h"
#include "web_api/fields/field_names.h"

namespace tachy::web_api {
namespace {

constexpr const char* kInvalid = "invalid_request_error";
constexpr const char* kServer = "server_error";

constexpr const char* kNameLetters = "abcdefghijklmnopqrstuvwxyz_0123456789";

struct ErrorKind {
  std::string_view code;
  int status;
  const char* type;
};
constexpr ErrorKind kKinds[] = {
    {"invalid_value", 400, kInvalid},
    {"unknown_parameter", 400, kInvalid},
    {"missing_parameter", 400, kInvalid},
    {"not_cancellable", 400, kInvalid},
    {"unsupported", 400, kInvalid},
    {"invalid_api_key", 401, "authentication_error"},
    {"forbidden", 403, "permission_error"},
    {"forbidden_host", 403, "permission_error"},
    {"forbidden_origin", 403, "permission_error"},
    {"not_found", 404, "not_found_error"},
    {"model_not_found", 404, "not_found_error"},
    {"not_ready", 404, "not_found_error"},
    {"job_failed", 404, "not_found_error"},
    {"method_not_allowed", 405, kInvalid},
    {"request_timeout", 408, kInvalid},
    {"expired", 410, kInvalid},
    {"changed_meanwhile", 412, kInvalid},
    {"too_large", 413, kInvalid},
    {"unsupported_media_type", 415, kInvalid},
    {"invalid_range", 416, kInvalid},
    {"over_limit", 422, kInvalid},
    {"idempotency_mismatch", 422, kInvalid},
    {"queue_full", 429, "rate_limit_error"},
    {"header_too_large", 431, kInvalid},
    {"internal_error", 500, kServer},
    {"not_available", 503, kServer},
};

// An unknown code is a mistake of this program.
const ErrorKind& error_kind(std::string_view code) {
  for (const ErrorKind& kind : kKinds)
    if (kind.code == code) return kind;
  return error_kind("internal_error");
}

// Adds a header unless whoever threw the error has given it.
void add_header(http::Pairs& headers, const char* name, const char* value) {
  for (const auto& header : headers)
    if (header.first == name) return;
  headers.emplace_back(name, value);
}

// Returns the first name in backticks, or "".
std::string_view field_in(std::string_view message) {
  const size_t open = message.find('`'), close = open == message.npos ? open : message.find('`', open + 1);
  return close == message.npos ? std::string_view() : message.substr(open + 1, close - open - 1);
}

ApiError failure(const Error& e) {
  switch (e.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::corrupt:
      return {"invalid_value", e.message()};
    case ErrorCode::unsupported:
      return {"unsupported", e.message()};
    case ErrorCode::not_found:
      return {field_in(e.message()) == "model" ? "model_not_found" : "not_found", e.message()};
    case ErrorCode::out_of_memory:
      return {"not_available", "the server has not enough memory for this at the moment"};
    case ErrorCode::io:  // its text may name the server's files
      if (says_full(e.message()))
        return {"not_available", "a disk of the server is full; try again when there is room"};
      return {"not_available",
              "the server cannot read or write its files or its table of jobs at the moment"};
    case ErrorCode::cancelled:
      return {"not_available", "the server has stopped this, or is about to end"};
    case ErrorCode::device:
    case ErrorCode::numerical:
    case ErrorCode::internal:
      break;
  }
  return {"internal_error", "the server failed to do this"};
}

}  // namespace

ApiError::ApiError(std::string code, std::string message, std::string param)
    : code(std::move(code)), message(std::move(message)), param(std::move(param)) {
  if (this->code == "not_ready") add_header(headers, "x-should-retry", "false");
}

int ApiError::status() const { return error_kind(code).status; }

ApiError as_api_error(const Error& error, const nlohmann::json& given) {
  ApiError out = failure(error);
  if (out.status() >= 500) return out;
  const std::string_view name = field_in(error.message());
  if (const ApiField* field = field_of_member(name))
    out.param = spelling_of(*field, given);
  else if (name.find_first_not_of(kNameLetters) == name.npos)
    out.param = name;
  out.message = with_spellings(out.message, given);
  return out;
}

http::Reply error_reply(const ApiError& e) {
  const ErrorKind& kind = error_kind(e.code);
  nlohmann::json error = {
      {"message", e.message}, {"type", kind.type}, {"param", nullptr}, {"code", kind.code}};
  if (!e.param.empty()) error["param"] = e.param;
  if (!e.nearest.is_null()) error["nearest"] = e.nearest;
  http::Reply out = http::json_reply(kind.status, json_line({{"error", std::move(error)}}));
  http::Pairs headers = e.headers;
  if (kind.status == 429) add_header(headers, "Retry-After", "10");
  if (kind.status == 503) add_header(headers, "Retry-After", "5");
  if (kind.status == 401) add_header(headers, "WWW-Authenticate", "Bearer");
  out.headers.insert(out.headers.end(), headers.begin(), headers.end());
  return out;
}

http::Reply error_reply(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return error_reply(*known);
  if (dynamic_cast<const http::TooLarge*>(&error)) return error_reply(ApiError("too_large", error.what()));
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return error_reply(as_api_error(*ours, {}));
  return error_reply(ApiError("internal_error", "the server failed to do this"));
}

http::Reply error_reply(int status) {
  switch (status) {
    case 400:
      return error_reply(ApiError("invalid_value", "this is not a request that the server can read"));
    case 404:
      return error_reply(ApiError("not_found", "there is nothing at this address"));
    case 405:
      return error_reply(ApiError("method_not_allowed", "this address has no such method"));
    case 408:
      return error_reply(ApiError("request_timeout", "the request came too slowly"));
    case 413:
      return error_reply(ApiError("too_large", "the request is larger than the server takes"));
    case 415:
      return error_reply(
          ApiError("unsupported_media_type", "send a body as application/json or multipart/form-data"));
    case 416:
      return error_reply(ApiError("invalid_range", "the file has no such part"));
    case 431:
      return error_reply(
          ApiError("header_too_large", "the request's header is larger than the server takes"));
    case 503:
      return error_reply(ApiError("not_available", "the server cannot answer at the moment"));
    default:
      return error_reply(ApiError("internal_error", "the server failed to do this"));
  }
}

}  // namespace tachy::web_api
