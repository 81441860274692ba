// Webhooks: the signature, which is compared with one that the openai client accepts; secrets in files; messages that
// are sent, sent again and given up.
#include "web_api/webhooks.h"

#include <gmock/gmock.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "message_table.h"
#include "small_server.h"
#include "temporary_folder.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The value was made by Python's hmac as openai 3.57.0 does it (openai/lib/_webhooks.py):
//   base64.b64encode(hmac.new(bytes(range(32)), b'msg_1.1764270000.{"a":"b"}', "sha256").digest())
TEST(WebhookSignature, IsTheOneThatTheOpenaiClientExpects) {
  std::string secret;
  for (char c = 0; c < 32; ++c) secret += c;
  EXPECT_EQ(webhook_signature(secret, "msg_1", 1764270000, "{\"a\":\"b\"}"),
            "v1,qpl4J0XpJ8y/ag0z9CBE6iNE2sn9182XAz0gwPwJH9g=");
}

using WebhookSecret = InTemporaryFolder;

TEST_F(WebhookSecret, IsReadFromAPrivateFile) {
  EXPECT_EQ(read_webhook_secret(write("s", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==\n")), "0123456789abcdef");
  for (const char* text : {"", "MDEyMzQ1Njc4OWFiY2RlZg==", "whsec_", "whsec_MDEy",
                           "whsec_MDEyMzQ1Njc4OWFiY2RlZg", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==\nwhsec_"})
    EXPECT_THROW(read_webhook_secret(write("s", text)), Error) << text;
  EXPECT_THROW(read_webhook_secret(write("s", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", 0640)), Error);
  EXPECT_THROW(read_webhook_secret(folder_ / "none"), Error);
}

TEST(WebhookMessages, TellOfTheEnd) {
  queue::JobRow row{.id = "video_1"};
  EXPECT_FALSE(end_of_job(row));
  row.status = queue::Status::in_progress;
  EXPECT_FALSE(end_of_job(row));
  row.status = queue::Status::completed;
  const auto done = end_of_job(row);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->id.starts_with("msg_"));
  EXPECT_EQ(done->job, "video_1");
  EXPECT_EQ(done->type, "video.completed");
  const auto body = nlohmann::json::parse(done->body);
  EXPECT_EQ(body["type"], "video.completed");
  EXPECT_EQ(body["object"], "event");
  EXPECT_EQ(body["data"], (nlohmann::json{{"id", "video_1"}}));
  EXPECT_NE(end_of_job(row)->id, done->id);
  row.status = queue::Status::failed, row.error = {"cancelled", "by its owner"};
  const auto failed = nlohmann::json::parse(end_of_job(row)->body);
  EXPECT_EQ(failed["type"], "video.failed");
  EXPECT_EQ(failed["data"]["error"]["code"], "cancelled");
}

TEST(WebhookUrls, AreOfHttp) {
  check_webhook_url("https://example.org/hook");
  check_webhook_url("http://127.0.0.1:1/");
  for (const char* url : {"", "example.org", "ftp://example.org/", "file:///etc/passwd"})
    EXPECT_THROW(check_webhook_url(url), Error) << url;
}

class Sending : public testing::Test {
 protected:
  void SetUp() override { set_quiet(true); }
  void TearDown() override { set_quiet(false); }
  static std::string header(const std::string& request, const std::string& name) {
    const size_t at = request.find("\r\n" + name + ": ");
    if (at == request.npos) return "";
    const size_t begin = at + name.size() + 4;
    return request.substr(begin, request.find("\r\n", begin) - begin);
  }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::string answer(const std::string& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    const std::string status =
        requests_.size() <= statuses_.size() ? statuses_[requests_.size() - 1] : "200 OK";
    return "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  }
  WebhookOptions options(const SmallServer& server) {
    return {.url = server.url("/hook"),
            .secret = "0123456789abcdef",
            .seconds = 20,
            .pauses = {0.02, 0.02},
            .look_seconds = 0.01};
  }
  bool wait(const std::function<bool()>& until) {
    for (int i = 0; i < 2000 && !until(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return until();
  }

  std::mutex mutex_;
  std::vector<std::string> requests_, statuses_;
  MessageTable table_;
};

TEST_F(Sending, AMessageIsSignedAndSentOnce) {
  SmallServer server([&](const std::string& request) { return answer(request); });
  table_.add({.id = "msg_1", .job = "video_1", .type = "video.completed", .body = "{\"a\":1}"});
  {
    Webhooks webhooks(options(server), table_);
    ASSERT_TRUE(wait([&] { return table_.left() == 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_EQ(requests().size(), 1u);
  const std::string request = requests()[0];
  EXPECT_TRUE(request.starts_with("POST /hook HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(request.ends_with("\r\n\r\n{\"a\":1}")) << request;
  EXPECT_EQ(header(request, "Content-Type"), "application/json");
  EXPECT_EQ(header(request, "webhook-id"), "msg_1");
  const std::string stamp = header(request, "webhook-timestamp");
  EXPECT_EQ(header(request, "webhook-signature"),
            webhook_signature("0123456789abcdef", "msg_1", std::stoll(stamp), "{\"a\":1}"));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(std::stod(stamp), std::chrono::duration<double>(now).count(), 10);
}

// The clock of a host may be an hour off, and that of the table is right.
TEST_F(Sending, TheTimeIsThatOfTheTable) {
  SmallServer server([&](const std::string& request) { return answer(request); });
  table_.ahead_ms = 3'600'000;
  table_.add({.id = "msg_1", .body = "{}"});
  Webhooks webhooks(options(server), table_);
  ASSERT_TRUE(wait([&] { return table_.left() == 0; }));
  const std::string stamp = header(requests().at(0), "webhook-timestamp");
  EXPECT_NEAR(std::stod(stamp), static_cast<double>(table_.now_ms()) / 1000, 10);
  EXPECT_EQ(header(requests().at(0), "webhook-signature"),
            webhook_signature("0123456789abcdef", "msg_1", std::stoll(stamp), "{}"));
}

TEST_F(Sending, ARetryKeepsIdAndBody) {
  statuses_ = {"500 Internal Server Error", "302 Found\r\nLocation: /elsewhere"};
  SmallServer server([&](const std::string& request) { return answer(request); });
  table_.add({.id = "msg_1", .body = "{}"});
  Webhooks webhooks(options(server), table_);
  ASSERT_TRUE(wait([&] { return table_.left() == 0; }));
  const auto seen = requests();
  ASSERT_EQ(seen.size(), 3u);
  for (const std::string& request : seen) {
    EXPECT_TRUE(request.starts_with("POST /hook "));
    EXPECT_EQ(header(request, "webhook-id"), "msg_1");
    EXPECT_TRUE(request.ends_with("\r\n\r\n{}"));
  }
}

TEST_F(Sending, EndsAfterTheLastAttemptOrWhenNobodyWantsIt) {
  statuses_.assign(100, "500 Internal Server Error");
  SmallServer server([&](const std::string& request) { return answer(request); });
  table_.add({.id = "msg_1", .body = "{}"});
  Webhooks webhooks(options(server), table_);
  ASSERT_TRUE(wait([&] { return table_.left() == 0; }));
  EXPECT_EQ(requests().size(), 3u);  // at once, and after each of two pauses
  {
    const std::lock_guard lock(mutex_);
    statuses_[3] = "410 Gone";
  }
  table_.add({.id = "msg_2", .body = "{}"});
  ASSERT_TRUE(wait([&] { return table_.left() == 0; }));
  EXPECT_EQ(requests().size(), 4u);
}

TEST_F(Sending, StopsAtOnceAndKeepsTheMessage) {
  std::atomic<bool> hang{true}, came{false};
  SmallServer server([&](const std::string&) {
    came = true;
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::string();
  });
  table_.add({.id = "msg_1", .body = "{}"});
  const auto begin = [&] {
    Webhooks webhooks(options(server), table_);
    EXPECT_TRUE(wait([&] { return came.load(); }));
    return std::chrono::steady_clock::now();
  }();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5))
      << "less than an attempt's time";
  hang = false;
  EXPECT_EQ(table_.left(), 1u);
}

}  // namespace
}  // namespace tachy::web_api
