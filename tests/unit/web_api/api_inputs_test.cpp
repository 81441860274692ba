// Pictures that come with a request: where they lie, and how a remix and a change hand them on.
#include <gmock/gmock.h>

#include <fstream>

#include "api_fixture.h"
#include "base/json_text.h"
#include "media/video/video_writer.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class ApiInputs : public ApiTest {
 protected:
  std::string picture(uint8_t grey) const {
    RgbFrame frame(16, 16);
    std::fill(frame.rgb.begin(), frame.rgb.end(), grey);
    write_png(folder_ / "drawn.png", frame.view());
    std::ifstream file(folder_ / "drawn.png", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A multipart body with a picture.
  Answer send_picture(const std::string& method, const std::string& path, const std::string& bytes,
                      const std::string& filename = "../../a photo.png") {
    http::Request request;
    request.method = method, request.path = path;
    request.body_kind = http::Request::Body::multipart;
    request.headers = {{"Content-Type", "multipart/form-data; boundary=x"}};
    http::Part part = file_part("input_reference", "a.png", bytes);
    part.file = std::make_shared<http::SpooledFile>(folder_ / "spool" / "part-x", filename, "image/png");
    std::ofstream(part.file->path(), std::ios::binary) << bytes;
    part.file->bytes = bytes.size(), part.file->sha256 = file_part("", "b.png", bytes).file->sha256;
    request.parts = {{"prompt", "it smiles", nullptr}, part};
    return send(std::move(request));
  }
  // The names in the folder of a job's inputs.
  std::vector<std::string> inputs_of(const std::string& id) const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder_of(id).inputs()))
      names.push_back(file.path().filename().string());
    return names;
  }
};

TEST_F(ApiInputs, APictureMovesIntoTheJobsFolder) {
  const Answer answer = send_picture("POST", "/v1/videos", picture(10));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string id = answer.body.at("id");
  const json settings = parse_json_line(table->find(id)->settings);
  ASSERT_EQ(inputs_of(id).size(), 1u);
  EXPECT_EQ(inputs_of(id)[0], settings.at("image"));
  EXPECT_EQ(inputs_of(id)[0], "image-" + settings.at("image_sha256").get<std::string>().substr(0, 16));
  const json& shown = answer.body.at("settings").at("input_reference");
  EXPECT_EQ(shown.at("sha256"), settings.at("image_sha256"));
  EXPECT_EQ(shown.at("file"), "a photo.png");
  EXPECT_TRUE(fs::is_empty(folder_ / "spool"));
}

TEST_F(ApiInputs, ARefusedPictureLeavesNothing) {
  EXPECT_EQ(send_picture("POST", "/v1/videos", "no picture at all").param(), "input_reference");
  service->most_queued = 0;
  EXPECT_EQ(send_picture("POST", "/v1/videos", picture(10)).status, 429);
  EXPECT_EQ(folders(), 0u);
  EXPECT_TRUE(fs::is_empty(folder_ / "spool"));
}

TEST_F(ApiInputs, ARemixHasTheSamePicture) {
  const std::string id = send_picture("POST", "/v1/videos", picture(10)).body.at("id");
  const Answer answer = call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "it laughs"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string second = answer.body.at("id");
  EXPECT_EQ(inputs_of(second), inputs_of(id));
  EXPECT_EQ(answer.body.at("settings").at("input_reference").at("file"), "a photo.png");
  EXPECT_EQ(call("DELETE", "/v1/videos/" + id).status, 200);
  EXPECT_EQ(inputs_of(second).size(), 1u);
  EXPECT_EQ(call("POST", "/v1/videos/" + second + "/remix", {{"prompt", "it cries"}}).status, 200);
}

TEST_F(ApiInputs, ARemixMayHaveAnotherPicture) {
  const std::string id = send_picture("POST", "/v1/videos", picture(10)).body.at("id");
  const Answer answer = send_picture("POST", "/v1/videos/" + id + "/remix", picture(20));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(inputs_of(answer.body.at("id")), inputs_of(id));
  EXPECT_EQ(inputs_of(answer.body.at("id")).size(), 1u);
}

TEST_F(ApiInputs, AChangedVideoKeepsItsPictureUnlessItGetsAnother) {
  const std::string id = send_picture("POST", "/v1/videos", picture(10)).body.at("id");
  const auto before = parse_json_line(table->find(id)->settings);
  ASSERT_EQ(call("PATCH", "/v1/videos/" + id, {{"seed", 4}}).status, 200);
  const auto kept = parse_json_line(table->find(id)->settings);
  EXPECT_EQ(kept.at("image"), before.at("image"));
  EXPECT_EQ(kept.at("seed"), 4);
  ASSERT_EQ(send_picture("PATCH", "/v1/videos/" + id, picture(20)).status, 200);
  const auto other = parse_json_line(table->find(id)->settings);
  EXPECT_NE(other.at("image"), before.at("image"));
  EXPECT_TRUE(fs::exists(folder_of(id).inputs() / other.at("image").get<std::string>()));
}

TEST_F(ApiInputs, APictureCanBeLookedAtAgain) {
  const std::string bytes = picture(10), id = send_picture("POST", "/v1/videos", bytes).body.at("id");
  const http::Reply reply = call("GET", "/v1/videos/" + id + "/inputs/input_reference").reply;
  EXPECT_THAT(reply.headers, testing::Contains(testing::Pair("Content-Type", "image/png")));
  std::ifstream file(std::get<http::FileBody>(reply.body).path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes);
  for (const char* name : {"prompt", "image", "audio_reference", "..", "video.mp4"})
    EXPECT_EQ(call("GET", "/v1/videos/" + id + "/inputs/" + name).status, 404) << name;
  service->keys = true;
  EXPECT_EQ(call("GET", "/v1/videos/" + id + "/inputs/input_reference", nullptr, {}, {.key = "bob"}).status,
            404);
  fs::remove_all(folder_of(id).inputs());
  EXPECT_EQ(call("GET", "/v1/videos/" + id + "/inputs/input_reference", nullptr, {}, {.admin = true}).status,
            410);
}

TEST_F(ApiInputs, AnInputThatIsGoneIsSaid) {
  const std::string id = send_picture("POST", "/v1/videos", picture(10)).body.at("id");
  fs::remove_all(folder_of(id).inputs());
  const Answer answer = call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "it laughs"}});
  EXPECT_EQ(answer.status, 410);
  EXPECT_EQ(answer.param(), "input_reference");
}

TEST_F(ApiInputs, TheSameRequestWithAnotherPictureIsAnotherRequest) {
  const std::string id = send_picture("POST", "/v1/videos", picture(10)).body.at("id");
  const std::string other = send_picture("POST", "/v1/videos", picture(20)).body.at("id");
  const http::Pairs once = {{"Idempotency-Key", "abc"}};
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "b"}, {"seed", 1}}, once).status, 200);
  EXPECT_EQ(call("POST", "/v1/videos/" + id + "/remix", {{"prompt", "b"}, {"seed", 1}}, once).status, 200);
  EXPECT_EQ(call("POST", "/v1/videos/" + other + "/remix", {{"prompt", "b"}, {"seed", 1}}, once).code(),
            "idempotency_mismatch");
}

// A video that an extension of it could begin with is made here without a model: its picture i has the grey 40 i.
class ApiExtensions : public ApiInputs {
 protected:
  std::string with_pictures(const std::string& id) {
    complete(id);
    const auto writer = VideoWriter::open(folder_of(id).video(), 32, 32);
    RgbFrame frame(32, 32);
    for (int i = 0; i < 5; ++i) {
      std::fill(frame.rgb.begin(), frame.rgb.end(), static_cast<uint8_t>(40 * i));
      writer->write(frame.view());
    }
    writer->finish();
    return id;
  }
  std::string source() { return with_pictures(created({{"seed", 5}, {"size", "32x32"}, {"num_frames", 5}})); }
  int grey_of_input(const std::string& id) {
    EXPECT_EQ(inputs_of(id).size(), 1u);
    const Picture picture = read_picture(folder_of(id).inputs() / inputs_of(id).at(0));
    EXPECT_EQ(picture.width, 32);
    return picture.rgb[0];
  }
};

TEST_F(ApiExtensions, AnExtensionBeginsWithTheLastPicture) {
  const std::string id = source();
  const Answer answer = call("POST", "/v1/videos/extensions",
                             {{"prompt", "and then"}, {"video", {{"id", id}}}, {"seconds", "1"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("extended_from_video_id"), id);
  EXPECT_TRUE(answer.body.at("extended_from_frame").is_null());
  EXPECT_TRUE(answer.body.at("remixed_from_video_id").is_null());
  EXPECT_EQ(answer.body.at("size"), "32x32");
  EXPECT_NE(answer.body.at("seed"), 5);
  EXPECT_NEAR(grey_of_input(answer.body.at("id")), 160, 6);
  EXPECT_TRUE(fs::is_empty(folder_ / "spool"));
}

TEST_F(ApiExtensions, AnExtensionBeginsWithTheFrameThatIsNamed) {
  const std::string id = source();
  for (const int frame : {0, 2, 4}) {
    const Answer answer =
        call("POST", "/v1/videos/extensions", {{"prompt", "and then"}, {"video", id}, {"from_frame", frame}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body.at("extended_from_frame"), frame);
    EXPECT_FALSE(answer.body.at("settings").contains("from_frame"));
    EXPECT_NEAR(grey_of_input(answer.body.at("id")), 40 * frame, 6);
  }
  for (const json& frame : {json(5), json(-1), json("2"), json(1.5), json()}) {
    const Answer answer =
        call("POST", "/v1/videos/extensions", {{"prompt", "and then"}, {"video", id}, {"from_frame", frame}});
    EXPECT_EQ(answer.status, 400) << frame;
    EXPECT_EQ(answer.param(), "from_frame") << frame;
  }
}

TEST_F(ApiExtensions, AJoinedVideoIsExtendedInItsSize) {
  const std::string a = source();
  const std::string id = with_pictures(call("POST", "/v1/videos/join", {{"videos", {a, a}}}).body.at("id"));
  const Answer answer =
      call("POST", "/v1/videos/extensions", {{"prompt", "and then"}, {"video", id}, {"from_frame", 1}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body.at("size"), "32x32");
  EXPECT_NEAR(grey_of_input(answer.body.at("id")), 40, 6);
}

}  // namespace
}  // namespace tachy::web_api
