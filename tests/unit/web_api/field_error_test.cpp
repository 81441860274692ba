// Tests how errors are answered: statuses, types, and what of a message a caller gets to see.
#include "field_case.h"
#include "http/multipart.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

json body_of(const http::Reply& reply) { return json::parse(std::get<std::string>(reply.body)); }

std::string header_of(const http::Reply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers)
    if (key == name) return value;
  return "";
}

TEST(ApiErrors, CodesHaveTheirStatusAndType) {
  const std::tuple<const char*, int, const char*> rows[] = {
      {"invalid_value", 400, "invalid_request_error"},
      {"unknown_parameter", 400, "invalid_request_error"},
      {"missing_parameter", 400, "invalid_request_error"},
      {"not_cancellable", 400, "invalid_request_error"},
      {"unsupported", 400, "invalid_request_error"},
      {"invalid_api_key", 401, "authentication_error"},
      {"forbidden_host", 403, "permission_error"},
      {"forbidden_origin", 403, "permission_error"},
      {"not_found", 404, "not_found_error"},
      {"model_not_found", 404, "not_found_error"},
      {"not_ready", 404, "not_found_error"},
      {"job_failed", 404, "not_found_error"},
      {"method_not_allowed", 405, "invalid_request_error"},
      {"expired", 410, "invalid_request_error"},
      {"too_large", 413, "invalid_request_error"},
      {"unsupported_media_type", 415, "invalid_request_error"},
      {"invalid_range", 416, "invalid_request_error"},
      {"over_limit", 422, "invalid_request_error"},
      {"idempotency_mismatch", 422, "invalid_request_error"},
      {"queue_full", 429, "rate_limit_error"},
      {"internal_error", 500, "server_error"},
      {"not_available", 503, "server_error"},
  };
  for (const auto& [code, status, type] : rows) {
    const ApiError error(code, "words", "field");
    EXPECT_EQ(error.status(), status) << code;
    const http::Reply reply = error_reply(error);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(header_of(reply, "Content-Type"), "application/json");
    EXPECT_EQ(body_of(reply),
              json({{"error", {{"message", "words"}, {"type", type}, {"param", "field"}, {"code", code}}}}));
  }
}

TEST(ApiErrors, HeadersOfSomeCodes) {
  EXPECT_EQ(header_of(error_reply(ApiError("not_ready", "wait")), "x-should-retry"), "false");
  EXPECT_EQ(header_of(error_reply(ApiError("queue_full", "wait")), "Retry-After"), "10");
  ApiError later("queue_full", "wait");
  later.headers = {{"Retry-After", "3"}};
  EXPECT_EQ(header_of(error_reply(later), "Retry-After"), "3");
  EXPECT_EQ(header_of(error_reply(ApiError("invalid_api_key", "no")), "WWW-Authenticate"), "Bearer");
}

TEST(ApiErrors, NearestIsTold) {
  ApiError error("over_limit", "too large", "size");
  error.nearest = {{"size", "64x64"}};
  EXPECT_EQ(body_of(error_reply(error))["error"]["nearest"]["size"], "64x64");
  EXPECT_TRUE(body_of(error_reply(ApiError("not_found", "no")))["error"]["param"].is_null());
}

TEST(ApiErrors, ErrorsOfTheEngineNameTheField) {
  const auto reply = [](ErrorCode code, const std::string& text) {
    return error_reply(static_cast<const std::exception&>(Error(code, text)));
  };
  const json wrong = body_of(reply(ErrorCode::invalid_argument, "`frames`: expected 4n + 1, got 6"))["error"];
  EXPECT_EQ(wrong["param"], "num_frames");
  EXPECT_EQ(wrong["message"], "`num_frames`: expected 4n + 1, got 6");
  EXPECT_EQ(wrong["code"], "invalid_value");
  EXPECT_EQ(reply(ErrorCode::unsupported, "`math`: not here").status, 400);
  EXPECT_EQ(body_of(reply(ErrorCode::not_found, "`after`: no such video"))["error"]["param"], "after");
  EXPECT_EQ(reply(ErrorCode::not_found, "`after`: no such video").status, 404);
  EXPECT_EQ(body_of(reply(ErrorCode::not_found, "`model`: none"))["error"]["code"], "model_not_found");
  EXPECT_TRUE(body_of(reply(ErrorCode::corrupt, "see `tachyscope doctor`"))["error"]["param"].is_null());
  const Error error(ErrorCode::invalid_argument, "`width`: not a multiple of 16");
  EXPECT_EQ(as_api_error(error, {{"size", "9x9"}}).param, "size");
}

TEST(ApiErrors, FailuresOfTheServerTellNothing) {
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::internal, ErrorCode::device, ErrorCode::numerical,
                               ErrorCode::out_of_memory, ErrorCode::cancelled}) {
    const http::Reply reply =
        error_reply(static_cast<const std::exception&>(Error(code, "/srv/secret is full")));
    EXPECT_GE(reply.status, 500);
    EXPECT_THAT(std::get<std::string>(reply.body), testing::Not(testing::HasSubstr("secret")));
  }
  const Error full(ErrorCode::io,
                   "/srv/secret: " + std::make_error_code(std::errc::no_space_on_device).message());
  const std::string said = std::get<std::string>(error_reply(static_cast<const std::exception&>(full)).body);
  EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("disk of the server is full"),
                                   testing::Not(testing::HasSubstr("secret"))));
  const http::Reply other = error_reply(static_cast<const std::exception&>(std::runtime_error("secret")));
  EXPECT_EQ(other.status, 500);
  EXPECT_THAT(std::get<std::string>(other.body), testing::Not(testing::HasSubstr("secret")));
}

TEST(ApiErrors, WhatIsTooLargeNamesItsLimit) {
  const http::TooLarge error("at most 7 bytes");
  const http::Reply reply = error_reply(static_cast<const std::exception&>(error));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(body_of(reply)["error"]["code"], "too_large");
  EXPECT_EQ(body_of(reply)["error"]["message"], "at most 7 bytes");
}

TEST(ApiErrors, StatusesOfTheHttpServer) {
  const std::pair<int, const char*> rows[] = {{400, "invalid_value"},      {404, "not_found"},
                                              {405, "method_not_allowed"}, {408, "request_timeout"},
                                              {413, "too_large"},          {415, "unsupported_media_type"},
                                              {416, "invalid_range"},      {503, "not_available"},
                                              {431, "header_too_large"},   {500, "internal_error"}};
  for (const auto& [status, code] : rows) {
    EXPECT_EQ(error_reply(status).status, status);
    EXPECT_EQ(body_of(error_reply(status))["error"]["code"], code);
  }
}

}  // namespace
}  // namespace tachy::web_api
