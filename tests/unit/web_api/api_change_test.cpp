// Cancel, pause, continue, change, remix, join: what becomes of a job.
#include <gmock/gmock.h>

#include <barrier>
#include <fstream>
#include <thread>

#include "api_fixture.h"
#include "base/json_text.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> waiting_ids(queue::JobTable& table) {
  std::vector<std::string> ids;
  for (const queue::WaitingJob& job : table.waiting()) ids.push_back(job.id);
  return ids;
}

TEST_F(ApiTest, AWaitingVideoIsCancelledAtOnce) {
  const std::string id = created();
  const Answer answer = call("POST", "/v1/videos/" + id + "/cancel");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.at("status"), "failed");
  EXPECT_EQ(answer.body.at("error").at("code"), "cancelled");
  const auto events = book->since(id, 0);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, "failed");
  const Answer again = call("POST", "/v1/videos/" + id + "/cancel?keep=true");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, answer.body);
  EXPECT_EQ(book->since(id, 0).size(), 1u);
}

TEST_F(ApiTest, ARunningVideoIsCancelledByItsWorker) {
  const std::string id = created();
  begin(id);
  runs.on_wake = [&] {  // the worker obeys
    queue::JobRow row = *table->find(id);
    if (row.wish != queue::Wish::cancel || row.status != queue::Status::in_progress) return;
    row.status = queue::Status::failed, row.error = {"cancelled", "it was cancelled"};
    table->end(row, "worker", std::nullopt);
  };
  const Answer answer = call("POST", "/v1/videos/" + id + "/cancel");
  EXPECT_EQ(answer.body.at("error").at("code"), "cancelled");
}

TEST_F(ApiTest, KeepingWhatIsThereIsAWishOfItsOwn) {
  const std::string id = created();
  begin(id);
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/cancel?keep=true").status, 200);
  EXPECT_EQ(table->find(id)->wish, queue::Wish::cancel_keeping_frames);
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/cancel?keep=maybe").param(), "keep");
}

TEST_F(ApiTest, WhatHasEndedCannotBeStopped) {
  const std::string done = created(), failed = created();
  complete(done);
  fail_job(failed, "nan");
  for (const std::string& id : {done, failed}) {
    EXPECT_EQ(call("POST", "/v1/videos/" + id + "/cancel").code(), "not_cancellable");
    EXPECT_EQ(call("POST", "/v1/videos/" + id + "/pause").status, 400);
    EXPECT_EQ(call("POST", "/v1/videos/" + id + "/continue").status, 400);
    EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 3}}).status, 400);
  }
}

TEST_F(ApiTest, AWebhookTellsOfACancelledJob) {
  service->message = [](const queue::JobRow& row) {
    return queue::Webhook{.id = "msg_1", .job = row.id, .type = "video.failed", .body = row.error.code};
  };
  const std::string id = created();
  call("POST", "/v1/videos/" + id + "/cancel");
  const auto messages = table->due_webhooks(int64_t{1} << 60, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].body, "cancelled");
}

TEST_F(ApiTest, APausedVideoWaitsUntilItMayGoOn) {
  const std::string id = created();
  Answer answer = call("POST", "/v1/videos/" + id + "/pause");
  EXPECT_EQ(answer.body.at("status"), "queued");
  EXPECT_EQ(answer.body.at("paused"), true);
  EXPECT_FALSE(table->claim(id, "worker"));
  answer = call("POST", "/v1/videos/" + id + "/continue");
  EXPECT_EQ(answer.body.at("paused"), false);
  EXPECT_TRUE(table->claim(id, "worker"));
}

TEST_F(ApiTest, ARunningVideoIsGivenBackToBePaused) {
  const std::string id = created();
  begin(id);
  runs.on_wake = [&] {
    if (table->find(id)->wish == queue::Wish::pause) table->give_back(id, "worker", true);
  };
  const Answer answer = call("POST", "/v1/videos/" + id + "/pause");
  EXPECT_EQ(answer.body.at("status"), "queued");
  EXPECT_EQ(answer.body.at("paused"), true);
}

TEST_F(ApiTest, ContinueTakesAPauseBackThatNobodyHasHeeded) {
  const std::string id = created();
  begin(id);
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/pause").body.at("status"), "in_progress");
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/continue").status, 200);
  EXPECT_EQ(table->find(id)->wish, queue::Wish::none);
}

TEST_F(ApiTest, AWaitingVideoGetsOtherValues) {
  const std::string id = created({{"seed", 5}, {"num_frames", 9}});
  const Answer answer = call("PATCH", "/v1/videos/" + id, {{"num_frames", 13}, {"priority", 2}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("num_frames"), 13);
  EXPECT_EQ(answer.body.at("seed"), 5);
  EXPECT_EQ(answer.body.at("priority"), 2);
  EXPECT_EQ(answer.body.at("prompt"), "a red circle moves right");
  EXPECT_EQ(parse_json_line(table->find(id)->settings).at("num_frames"), 13);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"nonsense", 1}}).param(), "nonsense");
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"num_frames", -1}}).status, 400);
}

TEST_F(ApiTest, TwoWhoChangeAVideoAtOnceAreTold) {
  const std::string id = created({{"seed", 5}});
  const std::string seen = call("GET", "/v1/videos/" + id).body.at("revision");
  const Answer first = call("PATCH", "/v1/videos/" + id, {{"seed", 6}}, {{"If-Match", "\"" + seen + "\""}});
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_NE(first.body.at("revision"), seen);
  const Answer second = call("PATCH", "/v1/videos/" + id, {{"seed", 7}}, {{"If-Match", seen}});
  EXPECT_EQ(second.status, 412);
  EXPECT_EQ(second.code(), "changed_meanwhile");
  EXPECT_EQ(call("GET", "/v1/videos/" + id).body.at("seed"), 6);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 7}}, {{"If-Match", "*"}}).status, 200);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 8}}).status, 200);
}

// Two callers have seen the same video and change it at the same time, so that both are planned before one is done.
TEST_F(ApiTest, OfTwoWhoChangeAVideoAtTheSameTimeOneWins) {
  const std::string id = created({{"seed", 5}});
  for (int round = 0; round < 20; ++round) {
    const std::string seen = call("GET", "/v1/videos/" + id).body.at("revision");
    std::barrier both(2);
    runs.on_outlook = [&] { both.arrive_and_wait(); };
    Answer answers[2];
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i)
      callers.emplace_back([&, i] {
        answers[i] = call("PATCH", "/v1/videos/" + id, {{"seed", 10 + 2 * round + i}}, {{"If-Match", seen}});
      });
    for (auto& thread : callers) thread.join();
    runs.on_outlook = [] {};
    const int winner = answers[0].status == 200 ? 0 : 1;
    EXPECT_EQ(answers[winner].status, 200) << answers[winner].body;
    ASSERT_EQ(answers[1 - winner].status, 412) << answers[1 - winner].body;
    EXPECT_EQ(answers[1 - winner].code(), "changed_meanwhile");
    EXPECT_EQ(call("GET", "/v1/videos/" + id).body.at("seed"), 10 + 2 * round + winner);
  }
}

TEST_F(ApiTest, WhoHasSeenNoRevisionLosesNothingOfOthers) {
  const std::string id = created({{"seed", 5}, {"num_frames", 9}});
  bool between = false;
  runs.on_outlook = [&] {  // while one change is planned, another one comes
    if (std::exchange(between, true)) return;
    EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"num_frames", 13}}).status, 200);
  };
  const Answer answer = call("PATCH", "/v1/videos/" + id, {{"seed", 6}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("seed"), 6);
  EXPECT_EQ(answer.body.at("num_frames"), 13);
}

TEST_F(ApiTest, ARunningVideoKeepsItsValues) {
  const std::string id = created();
  begin(id);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 3}}).status, 400);
}

TEST_F(ApiTest, AWaitingVideoGetsAnotherPlace) {
  const std::string a = created(), b = created(), c = created();
  EXPECT_THAT(waiting_ids(*table), ElementsAre(a, b, c));
  EXPECT_EQ(call("PATCH", "/v1/videos/" + c, {{"before", a}}).status, 200);
  EXPECT_THAT(waiting_ids(*table), ElementsAre(c, a, b));
  EXPECT_EQ(call("PATCH", "/v1/videos/" + c, {{"before", nullptr}}).status, 200);
  EXPECT_THAT(waiting_ids(*table), ElementsAre(a, b, c));
  EXPECT_EQ(call("PATCH", "/v1/videos/" + c, {{"before", "video_1"}}).param(), "before");
  begin(a);
  EXPECT_EQ(call("PATCH", "/v1/videos/" + c, {{"before", a}}).status, 400);
  EXPECT_EQ(runs.outlooks, 3) << "another place needs no plan";
}

TEST_F(ApiTest, ARemixKeepsWhatIsNotGiven) {
  const std::string id = created({{"num_frames", 9}, {"size", "64x64"}});
  const json seed = call("GET", "/v1/videos/" + id).body.at("seed");
  complete(id);
  const Answer answer = call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "a blue square"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.body.at("id"), id);
  EXPECT_EQ(answer.body.at("remixed_from_video_id"), id);
  EXPECT_EQ(answer.body.at("prompt"), "a blue square");
  EXPECT_EQ(answer.body.at("num_frames"), 9);
  EXPECT_EQ(answer.body.at("size"), "64x64");
  EXPECT_EQ(answer.body.at("seed"), seed);
  EXPECT_FALSE(answer.body.at("settings").contains("made_from"));
  const std::string second = answer.body.at("id");
  EXPECT_EQ(
      call("POST", "/v1/videos/" + second + "/remix", {{"prompt", "b"}}).body.at("remixed_from_video_id"),
      second);
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", json::object()).code(), "missing_parameter");
}

TEST_F(ApiTest, WhatNoModelCanIsSaid) {
  const Answer character = call("POST", "/v1/videos/characters", {{"prompt", "a"}});
  EXPECT_EQ(character.status, 400);
  EXPECT_EQ(character.code(), "unsupported");
  EXPECT_EQ(call("POST", "/v1/videos/edits", {{"prompt", "a"}}).param(), "video");
  EXPECT_EQ(call("GET", "/v1/videos/characters/c").code(), "unsupported");
  EXPECT_EQ(call("POST", "/v1/videos/extensions", {{"prompt", "a"}}).param(), "video");
  EXPECT_EQ(call("POST", "/v1/videos/extensions", {{"prompt", "a"}, {"video", {{"id", "video_1"}}}}).status,
            404);
  const std::string id = created();
  fail_job(id, "nan");
  EXPECT_THAT(call("POST", "/v1/videos/extensions", {{"prompt", "a"}, {"video", id}}).message(),
              HasSubstr("has failed"));
}

TEST_F(ApiTest, AnExtensionWaitsForItsVideo) {
  const std::string source = created({{"num_frames", 9}, {"size", "64x32"}});
  const json body = {{"prompt", "it goes on"}, {"video", {{"id", source}}}, {"from_frame", 4}};
  const http::Pairs key = {{"Idempotency-Key", "part-2"}};
  const Answer answer = call("POST", "/v1/videos/extensions", body, key);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string id = answer.body.at("id");
  EXPECT_EQ(answer.body.at("waits_for"), json({source}));
  EXPECT_EQ(answer.body.at("why"), "it waits for the video that it goes on from");
  EXPECT_EQ(answer.body.at("extended_from_video_id"), source);
  EXPECT_EQ(answer.body.at("size"), "64x32");
  EXPECT_FALSE(answer.body.at("settings").contains("input_reference")) << "there is no picture yet";
  EXPECT_EQ(table->find(id)->awaits, source);
  EXPECT_FALSE(table->claim(id, "worker"));
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "b"}}).status, 400);
  const Answer edited = call("PATCH", "/v1/videos/" + id, {{"seed", 3}});
  ASSERT_EQ(edited.status, 200) << edited.body;
  EXPECT_EQ(edited.body.at("waits_for"), json({source})) << "an edit changes nothing in that";
  EXPECT_EQ(call("POST", "/v1/videos/extensions", body, key).body.at("id"), id) << "it is the same request";
  EXPECT_EQ(
      call("POST", "/v1/videos/extensions", {{"prompt", "a"}, {"video", source}, {"from_frame", 9}}).param(),
      "from_frame");
  const std::string third =
      call("POST", "/v1/videos/extensions", {{"prompt", "and on"}, {"video", id}}).body.at("id");
  EXPECT_EQ(table->find(third)->awaits, id) << "one that waits can be extended, too";
}

TEST_F(ApiTest, AJoinWaitsForItsParts) {
  const std::string a = created({{"num_frames", 9}}), b = created({{"num_frames", 5}});
  complete(a);
  const json videos = {a, {{"id", b}, {"first_frame", 1}}, b};
  const http::Pairs key = {{"Idempotency-Key", "join"}};
  const Answer answer = call("POST", "/v1/videos/join", {{"videos", videos}}, key);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string id = answer.body.at("id");
  EXPECT_EQ(answer.body.at("waits_for"), json({b}));
  EXPECT_EQ(answer.body.at("num_frames"), 9 + 4 + 5);
  EXPECT_EQ(answer.body.at("settings"), json({{"videos", videos}}));
  EXPECT_EQ(table->find(id)->awaits, b);
  EXPECT_TRUE(std::filesystem::exists(folder_of(id).inputs() / "1.mp4"));
  EXPECT_FALSE(std::filesystem::exists(folder_of(id).inputs() / "2.mp4"));
  complete(b);
  EXPECT_EQ(call("POST", "/v1/videos/join", {{"videos", videos}}, key).body.at("id"), id);
}

TEST_F(ApiTest, VideosAreJoinedInTheirOrder) {
  const std::string a = created({{"num_frames", 9}}), b = created({{"num_frames", 5}});
  complete(a), complete(b);
  const Answer answer = call("POST", "/v1/videos/join", {{"videos", {b, a}}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string id = answer.body.at("id");
  EXPECT_EQ(answer.body.at("kind"), "join");
  EXPECT_EQ(answer.body.at("num_frames"), 14);
  EXPECT_EQ(table->find(id)->kind, "join");
  EXPECT_EQ(parse_json_line(table->find(id)->settings).at("join"), json({"1.mp4", "2.mp4"}));
  EXPECT_EQ(call("DELETE", "/v1/videos/" + a).status, 200);
  EXPECT_TRUE(std::filesystem::exists(folder_of(id).inputs() / "2.mp4"));
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "a"}}).code(), "unsupported");
}

TEST_F(ApiTest, SomeFramesOfAVideoAreJoined) {
  const std::string a = created({{"num_frames", 9}, {"fps", 8}}),
                    b = created({{"num_frames", 5}, {"fps", 8}});
  complete(a), complete(b);
  const json videos = {{{"id", a}, {"last_frame", 3}}, {{"id", b}, {"first_frame", 1}}, b};
  const Answer answer = call("POST", "/v1/videos/join", {{"videos", videos}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("num_frames"), 4 + 4 + 5);
  EXPECT_NEAR(std::stod(answer.body.at("seconds").get<std::string>()), 13 / 8.0, 0.02);
  EXPECT_EQ(answer.body.at("settings").at("videos"), videos);
  const json parts = parse_json_line(table->find(answer.body.at("id"))->settings).at("join");
  EXPECT_EQ(parts,
            json({{{"file", "1.mp4"}, {"last_frame", 3}}, {{"file", "2.mp4"}, {"first_frame", 1}}, "3.mp4"}));
  const json one = json::array({{{"id", a}, {"first_frame", 2}, {"last_frame", 2}}});
  EXPECT_EQ(call("POST", "/v1/videos/join", {{"videos", one}}).body.at("num_frames"), 1);
}

TEST_F(ApiTest, WhatCannotBeJoinedIsNamed) {
  const std::string a = created({{"num_frames", 9}}), b = created();
  complete(a), fail_job(b, "nan");
  const auto cut = [&](const json& frames) {
    json part = {{"id", a}};
    part.update(frames);
    return json{{"videos", {a, part}}};
  };
  const json bad[] = {json::object(),
                      {{"videos", json::array()}},
                      {{"videos", json::array({a})}},
                      {{"videos", "x"}},
                      {{"videos", {a, b}}},
                      {{"videos", {a, 3}}},
                      {{"videos", {a, {{"first_frame", 1}}}}},
                      cut({{"last_frame", 9}}),
                      cut({{"first_frame", 9}}),
                      cut({{"first_frame", 5}, {"last_frame", 4}}),
                      cut({{"first_frame", -1}}),
                      cut({{"first_frame", "1"}}),
                      cut({{"speed", 1}})};
  for (const json& body : bad) {
    const Answer answer = call("POST", "/v1/videos/join", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.param(), "videos") << body;
  }
  EXPECT_EQ(call("POST", "/v1/videos/join", {{"videos", {a, "video_1"}}}).status, 404);
  EXPECT_EQ(call("POST", "/v1/videos/join", {{"videos", {a, a}}, {"speed", 2}}).code(), "unknown_parameter");
  const std::string c = created({{"size", "8x8"}});  // it need not be completed for that
  EXPECT_THAT(call("POST", "/v1/videos/join", {{"videos", {a, c}}}).message(), HasSubstr("size"));
  EXPECT_EQ(folders(), 3u);
}

}  // namespace
}  // namespace tachy::web_api
