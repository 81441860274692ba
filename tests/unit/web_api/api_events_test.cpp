// The event stream of a job, as a connection reads it.
#include <gmock/gmock.h>

#include <fstream>

#include "api_fixture.h"

namespace tachy::web_api {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<http::EventFeed> feed_of(const Answer& answer) {
  return std::get<std::shared_ptr<http::EventFeed>>(answer.reply.body);
}

TEST_F(ApiTest, ALateListenerGetsAllEvents) {
  const std::string id = created();
  book->add(id, "queued", {{"position", 0}});
  book->add(id, "progress", {{"stage", "denoise"}});
  const Answer answer = call("GET", "/v1/videos/" + id + "/events");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "text/event-stream");
  const auto feed = feed_of(answer);
  EXPECT_EQ(feed->next().value(),
            "id: 1\nevent: queued\ndata: {\"position\":0}\n\n"
            "id: 2\nevent: progress\ndata: {\"stage\":\"denoise\"}\n\n");
  EXPECT_FALSE(feed->next());
  EXPECT_FALSE(feed->ended());
}

TEST_F(ApiTest, AListenerGoesOnAfterTheLastEventThatItHasSeen) {
  const std::string id = created();
  for (int i = 0; i < 3; ++i) book->add(id, "progress", {{"done", i}});
  const auto feed = feed_of(call("GET", "/v1/videos/" + id + "/events", nullptr, {{"Last-Event-ID", "2"}}));
  EXPECT_THAT(feed->next().value(), StartsWith("id: 3\n"));
  for (const char* bad : {"x", "-1", "1.5", "99999999999999999999"})
    EXPECT_EQ(call("GET", "/v1/videos/" + id + "/events", nullptr, {{"Last-Event-ID", bad}}).param(),
              "Last-Event-ID")
        << bad;
}

// Each host counts its own events, so a reader of one that is gone may have seen more than there are here.
TEST_F(ApiTest, AListenerWhoHasSeenMoreThanThereIsGetsAllEvents) {
  const std::string id = created();
  for (int i = 0; i < 3; ++i) book->add(id, "progress", {{"done", i}});
  const std::string path = "/v1/videos/" + id + "/events";
  EXPECT_FALSE(feed_of(call("GET", path, nullptr, {{"Last-Event-ID", "3"}}))->next());
  EXPECT_THAT(feed_of(call("GET", path, nullptr, {{"Last-Event-ID", "4"}}))->next().value(),
              StartsWith("id: 1\n"));
}

TEST_F(ApiTest, AStreamEndsAfterTheLastEvent) {
  const std::string id = created();
  const auto feed = feed_of(call("GET", "/v1/videos/" + id + "/events"));
  int woken = 0;
  feed->on_news([&] { ++woken; });
  EXPECT_FALSE(feed->next());
  book->add(id, "done", {{"url", "x"}});
  EXPECT_EQ(woken, 1);
  EXPECT_FALSE(feed->ended()) << "an event is not handed out yet";
  EXPECT_THAT(feed->next().value(), HasSubstr("event: done"));
  EXPECT_TRUE(feed->ended());
}

TEST_F(ApiTest, AStreamEndsWhenTheVideoIsDeleted) {
  const std::string id = created();
  const auto feed = feed_of(call("GET", "/v1/videos/" + id + "/events"));
  EXPECT_FALSE(feed->ended());
  call("DELETE", "/v1/videos/" + id);
  while (feed->next()) {
  }
  EXPECT_TRUE(feed->ended());
}

TEST_F(ApiTest, AnEndWithoutItsEventIsToldOf) {
  const std::string done = created(), failed = created();
  complete(done);
  fail_job(failed, "crashed");
  const auto feed = feed_of(call("GET", "/v1/videos/" + done + "/events"));
  EXPECT_THAT(feed->next().value(), HasSubstr("event: done"));
  EXPECT_TRUE(feed->ended());
  EXPECT_THAT(feed_of(call("GET", "/v1/videos/" + failed + "/events"))->next().value(), HasSubstr("crashed"));
  call("GET", "/v1/videos/" + done + "/events");
  EXPECT_EQ(book->since(done, 0).size(), 1u) << "it is told once";
}

TEST_F(ApiTest, PreviewsAreFoundByTheirNumberAlone) {
  const std::string id = created();
  std::ofstream(folder_of(id).preview(7)) << "a picture";
  const Answer answer = call("GET", "/v1/videos/" + id + "/previews/7");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(std::get<http::FileBody>(answer.reply.body).path, folder_of(id).preview(7));
  for (const char* number : {"8", "x", "7.jpg", "-7", "07x", "99999999999999999999", "2000000"})
    EXPECT_EQ(call("GET", "/v1/videos/" + id + "/previews/" + number).status, 404) << number;
}

}  // namespace
}  // namespace tachy::web_api
