// The files of a job, and links to them.
#include <gmock/gmock.h>

#include <fstream>

#include "api_fixture.h"
#include "web_api/links.h"

namespace tachy::web_api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string content_of(const std::string& id, const std::string& query = "") {
  return "/v1/videos/" + id + "/content" + query;
}

TEST_F(ApiTest, ContentOfAVideoThatIsNotReady) {
  const std::string id = created();
  for (int running = 0; running < 2; ++running) {
    const Answer answer = call("GET", content_of(id));
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.code(), "not_ready");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    if (!running) begin(id);
  }
}

TEST_F(ApiTest, ContentOfAFailedVideo) {
  const std::string id = created();
  fail_job(id, "nan");
  const Answer answer = call("GET", content_of(id));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.code(), "job_failed");
  EXPECT_THAT(answer.message(), HasSubstr("it did not work"));
}

TEST_F(ApiTest, ContentIsTheFileUnderANameOfOurs) {
  const std::string id = created({{"prompt", "../../etc/passwd\r\nX: y"}});
  complete(id);
  const Answer answer = call("GET", content_of(id));
  ASSERT_EQ(answer.status, 200);
  const auto& file = std::get<http::FileBody>(answer.reply.body);
  EXPECT_EQ(file.path, folder_of(id).video());
  EXPECT_EQ(answer.header("Content-Type"), "video/mp4");
  EXPECT_EQ(answer.header("Content-Disposition"), "attachment; filename=\"" + id + ".mp4\"");
  EXPECT_EQ(file.etag.front(), '"');
  EXPECT_EQ(file.etag.back(), '"');
  EXPECT_EQ(std::get<http::FileBody>(call("GET", content_of(id)).reply.body).etag, file.etag);
}

TEST_F(ApiTest, TheHashOfAVideoIsItsTag) {
  const std::string id = created();
  complete(id, {{"sha256", "abc123"}});
  EXPECT_EQ(std::get<http::FileBody>(call("GET", content_of(id)).reply.body).etag, "\"abc123\"");
}

TEST_F(ApiTest, PicturesThatAreThereAreSent) {
  const std::string id = created();
  complete(id);
  std::ofstream(folder_of(id).thumbnail()) << "a picture";
  const Answer answer = call("GET", content_of(id, "?variant=thumbnail"));
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(std::get<http::FileBody>(answer.reply.body).path, folder_of(id).thumbnail());
  EXPECT_EQ(answer.header("Content-Type"), "image/jpeg");
  EXPECT_THAT(answer.header("Content-Disposition"), EndsWith("-thumbnail.jpg\""));
  EXPECT_EQ(call("GET", content_of(id, "?variant=poster")).param(), "variant");
}

TEST_F(ApiTest, WhatIsNotKeptIsGone) {
  const std::string id = created();
  complete(id);
  std::filesystem::remove(folder_of(id).video());
  const Answer answer = call("GET", content_of(id));
  EXPECT_EQ(answer.status, 410);
  EXPECT_EQ(answer.code(), "expired");
}

TEST_F(ApiTest, ALinkNeedsNoKey) {
  const std::string id = created();
  const Answer answer = call("GET", "/v1/videos/" + id + "/link?variant=thumbnail");
  ASSERT_EQ(answer.status, 200);
  const std::string url = answer.body.at("url");
  EXPECT_THAT(url, testing::StartsWith("/v1/videos/" + id + "/content?variant=thumbnail&expires="));
  const int64_t expires = answer.body.at("expires_at");
  const std::string signature = url.substr(url.find("signature=") + 10);
  EXPECT_TRUE(link_verified(service->link_secret, id, std::to_string(expires), signature, expires - 1));
  EXPECT_FALSE(link_verified(service->link_secret, id, std::to_string(expires), signature, expires + 1));
}

}  // namespace
}  // namespace tachy::web_api
