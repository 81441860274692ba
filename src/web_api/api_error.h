// An error as the interface answers it: {"error": {message, type, param, code}} with an HTTP status.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace tachy::web_api {

class ApiError : public std::exception {
 public:
  // `code` decides status and type (api_error.cpp has the table): "invalid_value", "not_found", "queue_full" …
  // `param` is the field as the caller spelt it, or "".
  ApiError(std::string code, std::string message, std::string param = "");
  const char* what() const noexcept override { return message.c_str(); }
  int status() const;

  std::string code, message, param;
  nlohmann::json nearest;    // for over_limit: fields that would fit
  http::Pairs headers = {};  // Retry-After, x-should-retry …
};

http::Reply error_reply(const ApiError& error);
// Turns what a handler threw into a reply: an ApiError as it is, an Error by its code, with the field that its
// message names in backticks as `param`, anything else as internal_error without its text.
http::Reply error_reply(const std::exception& error);
// Returns what error_reply makes of an Error, with fields spelt as in `given` (JobRequest::given; null: as documented),
// in the message and as `param`.
ApiError as_api_error(const Error& error, const nlohmann::json& given);
http::Reply error_reply(
    int status);  // of the HTTP server's own statuses: 404, 405, 413, 415, 400, 408, 431, 503

}  // namespace tachy::web_api
