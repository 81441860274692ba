// Looking at videos and removing them, and who may.
#include <gmock/gmock.h>

#include "api_fixture.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> ids_in(const json& list) {
  std::vector<std::string> ids;
  for (const json& video : list.at("data")) ids.push_back(video.at("id"));
  return ids;
}

TEST_F(ApiTest, RetrieveTellsOfTheQueue) {
  const std::string id = created();
  runs.now = {.eta_seconds = 3, .position = 2};
  const Answer answer = call("GET", "/v1/videos/" + id);
  EXPECT_EQ(answer.body.at("queue_position"), 2);
  EXPECT_EQ(answer.body.at("eta_seconds"), 3);
  EXPECT_EQ(answer.header("openai-poll-after-ms"), "500");
  runs.now.eta_seconds = 100'000;
  EXPECT_EQ(call("GET", "/v1/videos/" + id).header("openai-poll-after-ms"), "5000");
}

TEST_F(ApiTest, WhatIsInMemoryIsRetrievedAtOnce) {
  service->keys = true;
  const http::Caller alice{.key = "alice"}, bob{.key = "bob"};
  const std::string id = created(json::object(), alice), path = "/v1/videos/" + id;
  call("GET", path, nullptr, {}, alice);
  EXPECT_TRUE(at_once(path, alice).has_value());
  EXPECT_FALSE(at_once(path, bob).has_value()) << "to him it does not exist, which the handler says";
  runs.busy = true;
  EXPECT_FALSE(at_once(path, alice).has_value());
  runs.busy = false;
  begin(id);
  EXPECT_FALSE(at_once(path, alice).has_value()) << "what was in memory is outdated";
  call("GET", path, nullptr, {}, alice);
  EXPECT_TRUE(at_once(path, alice).has_value());
  EXPECT_FALSE(at_once("/v1/videos/video_0", alice).has_value());
  EXPECT_FALSE(at_once("/v1/models", alice).has_value());
}

TEST_F(ApiTest, ATextThatIsKeptFollowsTheJob) {
  const std::string id = created({{"prompt", "says \"stage\":null, and } {"}});
  VideoTexts texts;
  const auto text_of = [&](const workers::Live& live) {
    table->find(id);
    const auto row = table->known(id);
    const json text = json::parse(texts.of(row, live));
    EXPECT_EQ(text, video_object(*row, live));
    return text;
  };
  EXPECT_EQ(text_of({.eta_seconds = 12.34, .position = 3}).at("queue_position"), 3);
  EXPECT_EQ(text_of({.eta_seconds = 11, .position = 2}).at("eta_seconds"), 11);
  begin(id);
  EXPECT_EQ(text_of({.stage = "denoise", .eta_seconds = 9}).at("status"), "in_progress");
  table->progress(id, "worker", 40);
  EXPECT_EQ(text_of({.stage = "decode", .eta_seconds = 8}).at("progress"), 40);
  queue::JobRow row = table->find(id).value();
  row.status = queue::Status::completed;
  ASSERT_TRUE(table->end(row, "worker", std::nullopt));
  EXPECT_EQ(text_of({}).at("status"), "completed");
}

TEST_F(ApiTest, RetrieveTellsOfTheRun) {
  const std::string id = created();
  begin(id);
  table->progress(id, "worker", 30);
  runs.now = {.stage = "denoise", .done = 3, .total = 10, .eta_seconds = 20};
  const Answer answer = call("GET", "/v1/videos/" + id);
  EXPECT_EQ(answer.body.at("status"), "in_progress");
  EXPECT_EQ(answer.body.at("progress"), 30);
  EXPECT_EQ(answer.body.at("stage"), "denoise");
  EXPECT_TRUE(answer.body.at("queue_position").is_null());
}

TEST_F(ApiTest, ACompletedVideoHasItsFilesAndTimes) {
  const std::string id = created();
  complete(id, {{"seconds", "2.06"}, {"bytes", 1234}});
  const Answer answer = call("GET", "/v1/videos/" + id);
  EXPECT_EQ(answer.body.at("status"), "completed");
  EXPECT_EQ(answer.body.at("progress"), 100);
  EXPECT_EQ(answer.body.at("seconds"), "2.06");
  EXPECT_EQ(answer.body.at("bytes"), 1234);
  EXPECT_EQ(answer.body.at("completed_at").get<int64_t>() - answer.body.at("created_at").get<int64_t>(), 5);
  EXPECT_EQ(answer.body.at("urls").at("video"), "/v1/videos/" + id + "/content?variant=video");
  EXPECT_EQ(answer.header("openai-poll-after-ms"), "");
}

TEST_F(ApiTest, AFailedVideoSaysWhy) {
  const std::string id = created();
  fail_job(id, "out_of_memory");
  const Answer answer = call("GET", "/v1/videos/" + id);
  EXPECT_EQ(answer.body.at("status"), "failed");
  EXPECT_EQ(answer.body.at("error"), json({{"code", "out_of_memory"}, {"message", "it did not work"}}));
  EXPECT_TRUE(answer.body.at("completed_at").is_null());
}

TEST_F(ApiTest, AnUnknownIdIs404) {
  for (const char* id : {"video_0123456789abcdef0123456789abcdef", "x", "video_", "VIDEO_1"}) {
    const Answer answer = call("GET", std::string("/v1/videos/") + id);
    EXPECT_EQ(answer.status, 404) << id;
    EXPECT_EQ(answer.code(), "not_found") << id;
    EXPECT_EQ(call("DELETE", std::string("/v1/videos/") + id).status, 404) << id;
  }
}

TEST_F(ApiTest, AListHasPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(created());
  const Answer first = call("GET", "/v1/videos?limit=2");
  EXPECT_THAT(ids_in(first.body), ElementsAre(ids[2], ids[1]));
  EXPECT_EQ(first.body.at("has_more"), true);
  EXPECT_EQ(first.body.at("first_id"), ids[2]);
  EXPECT_EQ(first.body.at("last_id"), ids[1]);
  const Answer second = call("GET", "/v1/videos?limit=2&after=" + ids[1]);
  EXPECT_THAT(ids_in(second.body), ElementsAre(ids[0]));
  EXPECT_EQ(second.body.at("has_more"), false);
  EXPECT_THAT(ids_in(call("GET", "/v1/videos?order=asc").body), ElementsAre(ids[0], ids[1], ids[2]));
}

TEST_F(ApiTest, ActiveVideosAreListedAsTheyWait) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(created());
  complete(ids[0]);
  begin(ids[2]);
  EXPECT_THAT(ids_in(call("GET", "/v1/videos?status=active").body), ElementsAre(ids[2], ids[1], ids[3]));
  const Answer some = call("GET", "/v1/videos?status=active&limit=1");
  EXPECT_THAT(ids_in(some.body), ElementsAre(ids[2]));
  EXPECT_EQ(some.body.at("has_more"), true);
  EXPECT_EQ(call("GET", "/v1/videos?status=active&limit=1000").status, 200);
  for (const char* query : {"limit=1001",
                            "after="
                            "video_1",
                            "order=asc"})
    EXPECT_EQ(call("GET", std::string("/v1/videos?status=active&") + query).status, 400) << query;
  EXPECT_EQ(call("GET", "/v1/videos?status=done").param(), "status");
  service->keys = true;
  EXPECT_THAT(ids_in(call("GET", "/v1/videos?status=active", nullptr, {}, {.key = "bob"}).body),
              testing::IsEmpty());
}

TEST_F(ApiTest, AnEmptyListHasNoLastId) {
  const Answer answer = call("GET", "/v1/videos");
  EXPECT_TRUE(answer.body.at("last_id").is_null());
  EXPECT_EQ(answer.body.at("data"), json::array());
}

TEST_F(ApiTest, AListsParametersAreChecked) {
  for (const char* query :
       {"limit=0", "limit=101", "limit=x", "limit=", "limit=1e1", "order=up", "limit=-1"}) {
    const Answer answer = call("GET", std::string("/v1/videos?") + query);
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_EQ(answer.param(), std::string(query).substr(0, 5)) << query;
  }
  for (const char* after : {"x", "video_0123456789abcdef0123456789abcdef"}) {
    const Answer answer = call("GET", std::string("/v1/videos?after=") + after);
    EXPECT_EQ(answer.status, 404) << after;
    EXPECT_EQ(answer.param(), "after");
  }
}

TEST_F(ApiTest, AnotherKeysVideosAreNotThere) {
  service->keys = true;
  const http::Caller alice{.key = "alice"}, bob{.key = "bob"}, root{.key = "root", .admin = true};
  const std::string id = created(json::object(), alice);
  for (const char* rest : {"", "/content", "/events", "/link", "/previews/1"})
    EXPECT_EQ(call("GET", "/v1/videos/" + id + rest, nullptr, {}, bob).code(), "not_found") << rest;
  for (const char* rest : {"/cancel", "/pause", "/continue"})
    EXPECT_EQ(call("POST", "/v1/videos/" + id + rest, nullptr, {}, bob).status, 404) << rest;
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "b"}}, {}, bob).status, 404);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 1}}, {}, bob).status, 404);
  EXPECT_EQ(call("DELETE", "/v1/videos/" + id, nullptr, {}, bob).status, 404);
  EXPECT_EQ(call("GET", "/v1/videos?after=" + id, nullptr, {}, bob).status, 404);
  EXPECT_TRUE(ids_in(call("GET", "/v1/videos", nullptr, {}, bob).body).empty());
  EXPECT_THAT(ids_in(call("GET", "/v1/videos", nullptr, {}, root).body), ElementsAre(id));
  EXPECT_EQ(call("GET", "/v1/videos/" + id, nullptr, {}, root).status, 200);
  EXPECT_EQ(call("GET", "/v1/videos/" + id, nullptr, {}, alice).status, 200);
}

TEST_F(ApiTest, DeletingAFinishedVideoRemovesItsFolder) {
  const std::string id = created();
  complete(id);
  const Answer answer = call("DELETE", "/v1/videos/" + id);
  EXPECT_EQ(answer.body, json({{"id", id}, {"deleted", true}, {"object", "video.deleted"}}));
  EXPECT_EQ(folders(), 0u);
  EXPECT_FALSE(table->find(id));
  EXPECT_TRUE(runs.stopped.empty());
  EXPECT_EQ(call("DELETE", "/v1/videos/" + id).status, 404);
}

TEST_F(ApiTest, DeletingARunningVideoStopsItFirst) {
  const std::string id = created();
  begin(id);
  bool folder_was_there = false;
  queue::Wish wish = queue::Wish::none;
  runs.on_stop = [&](const std::string& stopped) {
    folder_was_there = std::filesystem::exists(folder_of(stopped).path);
    wish = table->find(stopped)->wish;
  };
  EXPECT_EQ(call("DELETE", "/v1/videos/" + id).status, 200);
  EXPECT_THAT(runs.stopped, ElementsAre(id));
  EXPECT_TRUE(folder_was_there);
  EXPECT_EQ(wish, queue::Wish::cancel);
  EXPECT_EQ(folders(), 0u);
}

}  // namespace
}  // namespace tachy::web_api
