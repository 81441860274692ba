// Tests the signed word of one host to another: it counts for one GET of one address, at one host, for a minute.
#include "web_api/hosts/host_secret.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "temporary_folder.h"
#include "web_api/gate.h"
#include "web_api/hosts/pass_on.h"

namespace tachy::web_api {
namespace {

const std::string kSecret = "a secret of tests, 32 bytes long.";
constexpr int64_t kNow = 1'764'270'000;

http::Request passed_on(const std::string& header) {
  http::Request request;
  request.method = "GET", request.path = "/v1/videos/video_1/content";
  request.query = {{"variant", "video"}},
  request.headers = {{"Host", "10.0.0.2:8190"}, {kHostHeader, header}};
  return request;
}

std::string a_header(const HostSecret& secret, const http::Caller& caller = {.key = "anna"}) {
  return secret.signed_for("b", "/v1/videos/video_1/content?variant=video", caller, kNow);
}

TEST(HostSecret, TellsOnWhoseBehalfARequestComes) {
  const HostSecret secret(kSecret);
  const auto caller =
      secret.verified(passed_on(a_header(secret, {.key = "an;na", .priority = true})), "b", kNow + 5);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->key, "an;na");
  EXPECT_TRUE(caller->priority);
  EXPECT_FALSE(caller->admin);
}

TEST(HostSecret, CountsForNothingElse) {
  const HostSecret secret(kSecret), other(kSecret + "x");
  const std::string header = a_header(secret);
  EXPECT_FALSE(other.verified(passed_on(header), "b", kNow)) << "another secret";
  EXPECT_FALSE(secret.verified(passed_on(header), "c", kNow)) << "another host";
  EXPECT_FALSE(secret.verified(passed_on(header), "b", kNow + 61)) << "too late";
  EXPECT_FALSE(secret.verified(passed_on(header), "b", kNow - 61)) << "too early";
  const auto refuses = [&](auto&& change) {
    http::Request request = passed_on(header);
    change(request);
    return !secret.verified(request, "b", kNow);
  };
  EXPECT_TRUE(refuses([](http::Request& r) { r.method = "DELETE"; }));
  EXPECT_TRUE(refuses([](http::Request& r) { r.path = "/v1/videos/video_2/content"; }));
  EXPECT_TRUE(refuses([](http::Request& r) { r.query[0].second = "thumbnail"; }));
  EXPECT_TRUE(refuses([](http::Request& r) { r.query.emplace_back("a", "b"); }));
  EXPECT_TRUE(refuses([](http::Request& r) { r.body_kind = http::Request::Body::text; }));
  for (size_t i = 0; i < header.size(); ++i)
    EXPECT_TRUE(refuses([&](http::Request& r) { r.headers[1].second[i] ^= 1; })) << i;
  for (size_t i = 0; i < header.size(); ++i)
    EXPECT_TRUE(refuses([&](http::Request& r) { r.headers[1].second.resize(i); })) << i;
}

TEST(HostSecret, SignsARemovalAsWhatItIs) {
  const HostSecret secret(kSecret);
  const std::string target = "/v1/videos/video_1/content?variant=video";
  http::Request request =
      passed_on(secret.signed_for("b", target, {.key = "", .admin = true}, kNow, "DELETE"));
  EXPECT_FALSE(secret.verified(request, "b", kNow)) << "a GET";
  request.method = "DELETE";
  EXPECT_TRUE(secret.verified(request, "b", kNow));
}

TEST(HostSecret, GivesNoRightsThatWereNotSigned) {
  const HostSecret secret(kSecret);
  std::string header = a_header(secret);
  const size_t rights = header.rfind(';');
  header.insert(rights, "a");
  EXPECT_FALSE(secret.verified(passed_on(header), "b", kNow));
}

TEST(HostSecret, PassesTheGateInPlaceOfAKey) {
  const HostSecret secret(kSecret);
  GateOptions options{.host = "127.0.0.1"};
  options.host_caller = [&](const http::Request& request) { return secret.verified(request, "b", kNow); };
  const Gate gate = make_gate(options);
  http::Request good = passed_on(a_header(secret, {.key = "anna"}));
  EXPECT_FALSE(gate(good, nullptr));
  EXPECT_EQ(good.caller.key, "anna");
  EXPECT_TRUE(good.of_host);
  http::Request bad = passed_on(a_header(HostSecret(kSecret + "x"), {.key = "anna"}));
  const auto refused = gate(bad, nullptr);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 401);
  EXPECT_FALSE(bad.of_host);
  // Where there are no hosts, the header is one like any other.
  http::Request alone = passed_on(a_header(secret));
  alone.headers[0].second = "localhost";
  EXPECT_FALSE(make_gate({.host = "127.0.0.1"})(alone, nullptr));
  EXPECT_FALSE(alone.of_host);
}

class SecretFile : public InTemporaryFolder {};

TEST_F(SecretFile, IsReadWhereNobodyElseMayReadIt) {
  const std::filesystem::path file = folder_ / "secret";
  { std::ofstream(file) << kSecret << "\n"; }
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const std::string header = a_header(HostSecret::read(file));
  EXPECT_TRUE(HostSecret(kSecret).verified(passed_on(header), "b", kNow));
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::group_read);
  EXPECT_THROW(HostSecret::read(file), Error);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  { std::ofstream(file) << "short\n"; }
  EXPECT_THROW(HostSecret::read(file), Error);
  EXPECT_THROW(HostSecret::read(folder_ / "gone"), Error);
}

TEST(HostAddress, IsANameOrAnAddressAndAPort) {
  for (const char* good : {"10.0.0.7:8190", "worker-1.workers.svc:1", "[::1]:65535", "[fd00::12]:8190"})
    EXPECT_TRUE(is_host_address(good)) << good;
  for (const char* bad : {"", "10.0.0.7", ":8190", "a:0", "a:65536", "a:80/", "a@b:80", "user:pw@a:80",
                          "a b:80", "[::1", "[x]:80", "::1:80", "http://a:80", "a:80?x", "a:80#", "a%00:80"})
    EXPECT_FALSE(is_host_address(bad)) << bad;
}

}  // namespace
}  // namespace tachy::web_api
