// Creating a video: what is answered, what lies on the disk and in the table, and what is left when it is refused.
#include <gmock/gmock.h>

#include <fstream>

#include "api_fixture.h"
#include "base/json_text.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(ApiTest, CreateAnswersWithTheVideo) {
  const Answer answer = create({{"size", "64x64"}, {"num_frames", 9}, {"fps", 8}, {"seed", 7}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("object"), "video");
  EXPECT_EQ(answer.body.at("status"), "queued");
  EXPECT_EQ(answer.body.at("progress"), 0);
  EXPECT_EQ(answer.body.at("model"), "sprites");
  EXPECT_EQ(answer.body.at("prompt"), "a red circle moves right");
  EXPECT_EQ(answer.body.at("size"), "64x64");
  EXPECT_EQ(answer.body.at("seconds"), "1.12");
  EXPECT_EQ(answer.body.at("seed"), 7);
  EXPECT_TRUE(answer.body.at("error").is_null());
  EXPECT_TRUE(answer.body.at("urls").at("video").is_null());
  EXPECT_EQ(answer.header("openai-poll-after-ms"), "2000");  // a twentieth of 40 s
  EXPECT_GE(runs.wakes, 1);
}

TEST_F(ApiTest, CreateLeavesAFolderAndARow) {
  const std::string id = created({{"seed", 7}});
  const queue::JobRow row = table->find(id).value();
  EXPECT_EQ(row.planned_seconds, 40);
  EXPECT_EQ(row.needs.substr(0, 7), "sprites");
  EXPECT_EQ(parse_json_line(row.settings).at("seed"), 7);
  EXPECT_EQ(parse_json_line(row.settings).at("job").at("output"), "video.mp4");
  std::ifstream file(folder_of(id).request());
  const json stored = json::parse(file);
  EXPECT_EQ(stored.at("request").at("prompt"), "a red circle moves right");
  EXPECT_EQ(stored.at("settings"), parse_json_line(row.settings));
  EXPECT_EQ(folders(), 1u);
}

TEST_F(ApiTest, ADrawnSeedIsKept) {
  const Answer answer = create();
  EXPECT_TRUE(answer.body.at("seed").is_number_unsigned());
  EXPECT_EQ(parse_json_line(table->find(answer.body.at("id"))->settings).at("seed"), answer.body.at("seed"));
}

TEST_F(ApiTest, WrongFieldsAreNamed) {
  Answer answer = create({{"stepz", 3}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.code(), "unknown_parameter");
  EXPECT_EQ(answer.param(), "stepz");
  answer = create({{"num_inference_steps", 0}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.param(), "num_inference_steps");
  answer = call("POST", "/v1/videos", json::object());
  EXPECT_EQ(answer.code(), "missing_parameter");
  EXPECT_EQ(answer.param(), "prompt");
  answer = create({{"model", "sora-2"}});
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.code(), "model_not_found");
  EXPECT_EQ(folders(), 0u);
  EXPECT_EQ(table->counts().queued, 0);
}

TEST_F(ApiTest, WhatDoesNotFitIs422WithWhatWould) {
  runs.answer.fits = false;
  runs.answer.reason = "`size`: it needs 90 GiB of the 80 GiB that there are";
  runs.answer.nearest = {{"size", "640x368"}, {"num_frames", 41}};
  const Answer answer = create();
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.code(), "over_limit");
  EXPECT_EQ(answer.body.at("error").at("nearest").at("num_frames"), 41);
  EXPECT_THAT(answer.message(), HasSubstr("90 GiB"));
  EXPECT_THAT(answer.message(), HasSubstr("640x368"));
  EXPECT_EQ(folders(), 0u);
}

TEST_F(ApiTest, NoMessageNamesAFolderOfThisMachine) {
  runs.refusal = "`model`: " + (models->all()[0].path / "vae/config.json").string() +
                 ": it is cut short, see " + (folder_ / "jobs/x").string();
  const Answer answer = create();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.message(), "`model`: sprites/vae/config.json: it is cut short, see jobs/x");
}

TEST_F(ApiTest, AFullQueueAsksToComeLater) {
  service->most_queued = 1;
  created();
  const Answer full = create();
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.code(), "queue_full");
  EXPECT_GE(std::stoi(full.header("Retry-After")), 1);
  EXPECT_EQ(runs.outlooks, 1) << "a job that cannot be taken should not be planned";
  EXPECT_EQ(folders(), 1u);
}

TEST_F(ApiTest, AKeyHasItsOwnShareOfTheQueue) {
  service->keys = true;
  service->most_queued_of_key = 1;
  created(json::object(), {.key = "alice"});
  EXPECT_EQ(create(json::object(), {}, {.key = "alice"}).status, 429);
  EXPECT_EQ(create(json::object(), {}, {.key = "bob"}).status, 200);
  EXPECT_EQ(folders(), 2u);
}

TEST_F(ApiTest, APlanIsThatOfItsCaller) {
  service->keys = true;
  for (const char* path : {"/v1/videos/plan", "/v1/videos"}) {
    runs.owner.clear();
    EXPECT_EQ(call("POST", path, {{"prompt", "a"}}, {}, {.key = "alice"}).status, 200);
    EXPECT_EQ(runs.owner, "alice") << path;
  }
}

TEST_F(ApiTest, ARepeatedRequestGivesTheSameVideo) {
  const http::Pairs once = {{"Idempotency-Key", "abc"}};
  const Answer first = create({{"seed", 1}}, once), again = create({{"seed", 1}}, once);
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body.at("id"), first.body.at("id"));
  const Answer other = create({{"seed", 2}}, once);
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(other.code(), "idempotency_mismatch");
  EXPECT_EQ(folders(), 1u);
  EXPECT_EQ(create({{"seed", 1}}, {{"idempotency-key", std::string(256, 'x')}}).status, 400);
}

TEST_F(ApiTest, ARepeatedRequestIsAnsweredThoughTheQueueIsFull) {
  service->most_queued = 1;
  const http::Pairs once = {{"Idempotency-Key", "abc"}};
  const Answer first = create({{"seed", 1}}, once);
  EXPECT_EQ(create({{"seed", 1}}, once).body.at("id"), first.body.at("id"));
  EXPECT_EQ(create({{"seed", 1}}, {{"Idempotency-Key", "other"}}).status, 429);
}

TEST_F(ApiTest, NoJobsAreTakenAtTheEnd) {
  ending = true;
  const Answer answer = create();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.code(), "not_available");
  EXPECT_EQ(call("GET", "/ready").status, 503);
  EXPECT_EQ(call("GET", "/health").status, 200);
}

TEST_F(ApiTest, MultipartIsReadLikeJson) {
  http::Request request;
  request.method = "POST", request.path = "/v1/videos";
  request.headers = {{"Content-Type", "multipart/form-data; boundary=x"}};
  request.body_kind = http::Request::Body::multipart;
  request.parts = {{"prompt", "5", nullptr}, {"num_frames", "9", nullptr}, {"seed", "3", nullptr}};
  const Answer answer = send(std::move(request));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("prompt"), "5");
  EXPECT_EQ(answer.body.at("num_frames"), 9);
}

TEST_F(ApiTest, APlanSaysWhetherItFits) {
  runs.answer.queue_position = 3;
  Answer answer = call("POST", "/v1/videos/plan", {{"prompt", "a"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("seconds"), 40);
  EXPECT_EQ(answer.body.at("host_bytes"), 1000);
  EXPECT_EQ(answer.body.at("queue_position"), 3);
  EXPECT_EQ(answer.body.at("fits"), true);
  EXPECT_TRUE(answer.body.at("reason").is_null());
  runs.answer.fits = false, runs.answer.reason = "too large", runs.answer.nearest = {{"num_frames", 5}};
  answer = call("POST", "/v1/videos/plan", {{"prompt", "a"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.at("fits"), false);
  EXPECT_EQ(answer.body.at("reason"), "too large");
  EXPECT_EQ(answer.body.at("nearest").at("num_frames"), 5);
  EXPECT_EQ(folders(), 0u);
}

TEST_F(ApiTest, APlanTellsOfWarnings) {
  EXPECT_EQ(call("POST", "/v1/videos/plan", {{"prompt", "a"}}).body.at("warnings"), json::array());
  runs.warning = "`prompt`: 3 tokens are dropped";
  EXPECT_EQ(call("POST", "/v1/videos/plan", {{"prompt", "a"}}).body.at("warnings"),
            json::array({runs.warning}));
  testing::internal::CaptureStderr();
  EXPECT_EQ(create().status, 200);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "")
      << "what callers write does not belong into the server's log";
}

TEST_F(ApiTest, TheServersOwnLimitIsPixelsTimesFrames) {
  const auto engine = models->open("sprites");
  VideoRequest video = engine->defaults();
  video.prompt = "a", video.width = 64, video.height = 64, video.frames = 9;
  runs.answer.prepared = std::make_shared<PreparedRequest>(engine->prepare(video));
  service->most_pixel_frames = 64 * 64 * 9;
  EXPECT_EQ(create().status, 200);
  service->most_pixel_frames = 64 * 64 * 8;
  const Answer answer = create();
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.body.at("error").at("nearest").at("num_frames"), 5);
}

}  // namespace
}  // namespace tachy::web_api
