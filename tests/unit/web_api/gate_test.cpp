// The gate lets requests in by Host, Origin, key and signed link.
#include "web_api/gate.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "temporary_folder.h"
#include "web_api/links.h"

namespace tachy::web_api {
namespace {

http::Request asks(std::string path, http::Pairs headers, std::string method = "GET") {
  http::Request request;
  request.method = std::move(method), request.path = std::move(path), request.headers = std::move(headers);
  request.loopback = true;
  return request;
}

// Returns "", or status and code of the refusal.
std::string answer(const Gate& gate, http::Request& request, const http::Route* route = nullptr) {
  const auto reply = gate(request, route);
  if (!reply) return "";
  const auto body = nlohmann::json::parse(std::get<std::string>(reply->body));
  return fmt::format("{} {}", reply->status, body["error"]["code"].get<std::string>());
}

std::string answer(const Gate& gate, http::Request&& request, const http::Route* route = nullptr) {
  return answer(gate, request, route);
}

TEST(AnOpenGate, LetsInTheNamesOfThisMachine) {
  const Gate gate = make_gate({.host = "127.0.0.1", .names = {"video.example.org"}});
  for (const char* host : {"127.0.0.1:8190", "localhost", "LOCALHOST:1", "[::1]:8190", "video.example.org",
                           "Video.Example.Org:443"})
    EXPECT_EQ(answer(gate, asks("/v1/videos", {{"Host", host}})), "") << host;
  for (const char* host :
       {"", "evil.example", "video.example.org.evil.example", "video.example.org:", "10.0.0.1",
        "video.example.org:80x", "video.example.orgs", "127.0.0.1:8190@evil", "evil:8190"})
    EXPECT_EQ(answer(gate, asks("/v1/videos", {{"Host", host}})), "403 forbidden_host") << host;
  EXPECT_EQ(answer(gate, asks("/health", {})), "403 forbidden_host");
  EXPECT_EQ(answer(gate, asks("/", {{"Host", "localhost"}, {"host", "evil"}})), "403 forbidden_host");
}

TEST(AnOpenGate, RefusesPagesFromElsewhere) {
  const Gate gate = make_gate({.host = "127.0.0.1", .names = {"video.example.org"}});
  const auto from = [&](const char* host, const char* origin, const char* method = "GET") {
    return answer(gate, asks("/v1/videos", {{"Host", host}, {"Origin", origin}}, method));
  };
  EXPECT_EQ(from("localhost:8190", "http://localhost:8190"), "");
  EXPECT_EQ(from("video.example.org", "https://video.example.org"), "");
  for (const char* method : {"GET", "POST", "DELETE", "OPTIONS"})
    for (const char* origin : {"null", "", "http://evil.example", "http://localhost:8191", "http://localhost",
                               "localhost:8190", "file://", "http://localhost:8190.evil.example"})
      EXPECT_EQ(from("localhost:8190", origin, method), "403 forbidden_origin") << method << origin;
  EXPECT_EQ(
      answer(gate, asks("/", {{"Host", "localhost"}, {"Origin", "http://localhost"}, {"Origin", "null"}})),
      "403 forbidden_origin");
  const http::Route open{.method = "GET", .pattern = "/health", .open = true};
  EXPECT_EQ(answer(gate, asks("/health", {{"Host", "localhost"}, {"Origin", "null"}}), &open),
            "403 forbidden_origin");
}

TEST(AnOpenGate, IgnoresKeysAndGivesPriorityHere) {
  const Gate gate = make_gate({.host = "127.0.0.1"});
  auto request = asks("/v1/videos", {{"Host", "localhost"}, {"Authorization", "Bearer whatever"}});
  EXPECT_EQ(answer(gate, request), "");
  EXPECT_EQ(request.caller.key, "");
  EXPECT_TRUE(request.caller.priority);
  EXPECT_FALSE(request.caller.admin);
  request.loopback = false;
  EXPECT_EQ(answer(gate, request), "");
  EXPECT_FALSE(request.caller.priority);
}

class AGateWithKeys : public InTemporaryFolder {
 protected:
  void SetUp() override {
    InTemporaryFolder::SetUp();
    key_ = new_key(folder_ / "keys", "alice");
    gate_ = make_gate(
        {.host = "127.0.0.1", .keys = Keys::read(folder_ / "keys"), .link_secret = "secret", .now = [this] {
           return now_;
         }});
  }
  http::Request asks_with(const std::string& path, const std::string& authorization) {
    return asks(path, {{"Host", "localhost"}, {"Authorization", authorization}});
  }
  http::Request by_link(const std::string& path, const std::string& method = "GET") {
    http::Request request = asks(path, {{"Host", "localhost"}}, method);
    const std::string query = signed_query("secret", "video_1", 1000);
    const size_t middle = query.find("&signature=");
    request.query = {{"expires", query.substr(8, middle - 8)}, {"signature", query.substr(middle + 11)}};
    return request;
  }

  std::string key_;
  Gate gate_;
  int64_t now_ = 900;
};

TEST_F(AGateWithKeys, NeedsOne) {
  auto request = asks_with("/v1/videos", "Bearer " + key_);
  EXPECT_EQ(answer(gate_, request), "");
  EXPECT_EQ(request.caller.key, "alice");
  EXPECT_FALSE(request.caller.priority);  // its line does not have the right, and loopback counts no more
  for (const std::string& text :
       {std::string(), std::string("Bearer "), "Bearer " + key_ + "x", key_, "Basic " + key_})
    EXPECT_EQ(answer(gate_, asks_with("/v1/videos", text)), "401 invalid_api_key") << text;
  EXPECT_EQ(answer(gate_, asks("/metrics", {{"Host", "localhost"}})), "401 invalid_api_key");
  EXPECT_EQ(answer(gate_, asks("/no/such/path", {{"Host", "localhost"}}), nullptr), "401 invalid_api_key");
  const auto refused = gate_(request = asks_with("/v1/videos", ""), nullptr);
  EXPECT_THAT(refused->headers, testing::Contains(testing::Pair("WWW-Authenticate", "Bearer")));
  EXPECT_EQ(std::get<std::string>(refused->body).find(key_), std::string::npos);
}

TEST_F(AGateWithKeys, LetsEverybodySeeWhatIsOpen) {
  const http::Route open{.method = "GET", .pattern = "/health", .open = true};
  EXPECT_EQ(answer(gate_, asks("/health", {{"Host", "localhost"}}), &open), "");
  EXPECT_EQ(answer(gate_, asks("/health", {{"Host", "evil.example"}}), &open), "403 forbidden_host");
}

TEST_F(AGateWithKeys, ASignedLinkIsForOneGet) {
  auto request = by_link("/v1/videos/video_1/content");
  EXPECT_EQ(answer(gate_, request), "");
  EXPECT_TRUE(request.caller.admin);
  EXPECT_EQ(answer(gate_, by_link("/v1/videos/video_1/content", "HEAD")), "");
  for (const char* path :
       {"/v1/videos/video_2/content", "/v1/videos/video_1", "/v1/videos/video_1/events", "/v1/videos"})
    EXPECT_EQ(answer(gate_, by_link(path)), "401 invalid_api_key") << path;
  for (const char* method : {"DELETE", "POST", "PATCH"})
    EXPECT_EQ(answer(gate_, by_link("/v1/videos/video_1/content", method)), "401 invalid_api_key") << method;
  now_ = 1000;
  EXPECT_EQ(answer(gate_, by_link("/v1/videos/video_1/content")), "401 invalid_api_key");
}

}  // namespace
}  // namespace tachy::web_api
