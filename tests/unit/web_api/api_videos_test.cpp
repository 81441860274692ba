// Videos that come with a request: where they lie, what a plan tells of them, and how others take them over.
#include <gmock/gmock.h>

#include <fstream>

#include "api_fixture.h"
#include "base/json_text.h"
#include "media/video/video_writer.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class ApiVideos : public ApiTest {
 protected:
  void draw(const fs::path& path, uint8_t grey) const {
    const auto writer = VideoWriter::open(path, 32, 32, {.fps = 16});
    RgbFrame frame(32, 32);
    std::fill(frame.rgb.begin(), frame.rgb.end(), grey);
    for (int i = 0; i < 5; ++i) writer->write(frame.view());
    writer->finish();
  }
  http::Part film(const std::string& field, uint8_t grey) const {
    const fs::path drawn = folder_ / "drawn.mp4";
    fs::remove(drawn);
    draw(drawn, grey);
    std::ifstream in(drawn, std::ios::binary);
    return file_part(field, field + ".mp4", {std::istreambuf_iterator<char>(in), {}});
  }
  Answer send_parts(const std::string& path, std::vector<http::Part> parts) {
    http::Request request;
    request.method = "POST", request.path = path;
    request.body_kind = http::Request::Body::multipart;
    request.headers = {{"Content-Type", "multipart/form-data; boundary=x"}};
    parts.insert(parts.begin(), {"prompt", "in ink", nullptr});
    request.parts = std::move(parts);
    return send(std::move(request));
  }
  json settings_of(const std::string& id) { return parse_json_line(table->find(id)->settings); }
};

TEST_F(ApiVideos, AVideoMovesIntoTheJobsFolder) {
  const Answer answer =
      send_parts("/v1/videos", {film("video", 10), film("mask_video", 255), {"strength", "0.5", nullptr}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string id = answer.body.at("id");
  const json settings = settings_of(id);
  for (const char* field : {"video", "mask_video"}) {
    const fs::path kept = folder_of(id).inputs() / settings.at(field).get<std::string>();
    EXPECT_EQ(kept.filename().string(),
              std::string(field) + "-" +
                  settings.at(std::string(field) + "_sha256").get<std::string>().substr(0, 16));
    EXPECT_EQ(read_footage(kept).frames, 5);
    EXPECT_EQ(answer.body.at("settings").at(field).at("file"), std::string(field) + ".mp4");
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "spool"));
  const http::Reply reply = call("GET", "/v1/videos/" + id + "/inputs/video").reply;
  EXPECT_THAT(reply.headers, testing::Contains(testing::Pair("Content-Type", "video/mp4")));
}

// The plan tells what a video is, and takes that in its place; a job needs the video.
TEST_F(ApiVideos, APlanTellsWhatAVideoIs) {
  const Answer plan = send_parts("/v1/videos/plan", {film("control_video", 10)});
  ASSERT_EQ(plan.status, 200) << plan.body;
  const json facts = {{"control_video", {{"width", 32}, {"height", 32}, {"fps", 16.0}, {"frames", 5}}}};
  EXPECT_EQ(plan.body.at("videos"), facts);
  EXPECT_TRUE(fs::is_empty(folder_ / "spool"));
  const std::string text = facts.at("control_video").dump();
  EXPECT_EQ(send_parts("/v1/videos/plan", {{"control_video", text, nullptr}}).body.at("videos"), facts);
  EXPECT_EQ(send_parts("/v1/videos", {{"control_video", text, nullptr}}).param(), "control_video");
  EXPECT_EQ(folders(), 0u);
}

TEST_F(ApiVideos, ARemixTakesThemOverUnlessTheyAreDropped) {
  const std::string id = send_parts("/v1/videos", {film("video", 10), film("mask_video", 255)}).body.at("id");
  const Answer same = call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "in oil"}});
  ASSERT_EQ(same.status, 200) << same.body;
  EXPECT_EQ(settings_of(same.body.at("id")).at("mask_video_sha256"), settings_of(id).at("mask_video_sha256"));
  const Answer less =
      call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "in oil"}, {"mask_video", nullptr}});
  ASSERT_EQ(less.status, 200) << less.body;
  EXPECT_FALSE(settings_of(less.body.at("id")).contains("mask_video"));
  EXPECT_TRUE(settings_of(less.body.at("id")).contains("video"));
}

TEST_F(ApiVideos, AnEditTakesAFileOrAVideoOfThisServer) {
  const Answer file = send_parts("/v1/videos/edits", {film("video", 10), {"strength", "0.5", nullptr}});
  ASSERT_EQ(file.status, 200) << file.body;
  const std::string source = created({{"size", "32x32"}, {"num_frames", 5}});
  const json body = {{"prompt", "in ink"}, {"video", {{"id", source}}}};
  EXPECT_EQ(call("POST", "/v1/videos/edits", body).param(), "video") << "it is not completed";
  complete(source);
  draw(folder_of(source).video(), 40);
  const Answer made = call("POST", "/v1/videos/edits", body);
  ASSERT_EQ(made.status, 200) << made.body;
  const json settings = settings_of(made.body.at("id"));
  EXPECT_EQ(
      read_footage(folder_of(made.body.at("id")).inputs() / settings.at("video").get<std::string>()).frames,
      5);
  EXPECT_EQ(made.body.at("settings").at("video").at("file"), source + ".mp4");
  EXPECT_EQ(call("POST", "/v1/videos/edits", {{"prompt", "a"}, {"video", {{"id", "video_1"}}}}).status, 404);
  EXPECT_EQ(call("POST", "/v1/videos/edits", {{"prompt", "a"}, {"video", "/etc/passwd"}}).param(), "video");
}

}  // namespace
}  // namespace tachy::web_api
