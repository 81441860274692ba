// Tests videos, masks and references of a request.
#include <fmt/format.h>

#include "api/tachyscope.h"
#include "base/random_bytes.h"
#include "input_case.h"
#include "media/video/video_writer.h"
#include "web_api/fields/inputs.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Videos are read by their content, told by their fields, and keep the name that they came with.
class VideoFields : public InputFields {
 protected:
  static std::string film(int frames, int side = 32, uint8_t grey = 0) {
    const auto path = std::filesystem::temp_directory_path() / ("film-" + random_hex(16) + ".mp4");
    const auto writer = VideoWriter::open(path, side, side, {.fps = 16});
    RgbFrame frame(side, side);
    std::fill(frame.rgb.begin(), frame.rgb.end(), grey);
    for (int i = 0; i < frames; ++i) writer->write(frame.view());
    writer->finish();
    std::ifstream in(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::filesystem::remove(path);
    return bytes;
  }
};

TEST_F(VideoFields, AVideoIsAPartOrData) {
  const std::string bytes = film(9);
  const http::Request request = with_file("video", bytes, "../my film.mov");
  const JobRequest part = parse(request);
  const Footage& video = *part.job.settings.request.video;
  EXPECT_EQ(video.frames, 9);
  EXPECT_EQ(video.width, 32);
  EXPECT_EQ(video.name, "my film.mov");
  EXPECT_EQ(part.job.settings.inputs.at("video").sha256, request.parts[1].file->sha256);
  EXPECT_EQ(part.given["video"]["file"], "my film.mov");
  ASSERT_EQ(part.files.size(), 1U);
  const std::string url = data_url(bytes, "video/mp4");
  for (const json& value : {json(url), json({{"video_url", url}})}) {
    const JobRequest job = parse(json_request({{"prompt", "a cat"}, {"video", value}}));
    EXPECT_EQ(job.fingerprint, part.fingerprint);
    EXPECT_EQ(job.job.settings.request.video->name, "the file");
  }
  EXPECT_EQ(refusal_of("video", {{"image_url", url}}).param, "video");
}

TEST_F(VideoFields, APictureIsAMaskOfAllFrames) {
  const JobRequest job = parse(with_file("mask_video", golden("bits1.png")));
  EXPECT_EQ(job.job.settings.request.mask_video->frames, 1);
  EXPECT_NO_THROW(parse(with_file("mask_video", film(5, 32, 255))));
  const Answer grey = refusal_of_file("mask_video", film(5, 32, 128));
  EXPECT_EQ(grey.code, "invalid_value");
  EXPECT_EQ(grey.message.find("`mask_video`: f.bin: frame 0 is not a mask"), 0U) << grey.message;
}

TEST_F(VideoFields, AListOfReferences) {
  http::Request request =
      form({{"prompt", "a"}, {"reference[]", ""}, {"reference[]", ""}, {"reference[]", ""}});
  for (size_t i : {1, 2, 3}) request.parts[i].file = spooled(golden("bits1.png"), fmt::format("{}.png", i));
  const JobRequest job = parse(request);
  const VideoRequest& r = job.job.settings.request;
  EXPECT_TRUE(r.reference && r.reference_2 && r.reference_3 && !r.reference_4);
  EXPECT_EQ(job.given["reference"]["file"], "1.png");
  EXPECT_EQ(job.given["reference_3"]["file"], "3.png");
  const std::string url = data_url(golden("bits1.png"));
  EXPECT_NE(
      parse(json_request({{"prompt", "a"}, {"references", {url, url}}})).job.settings.request.reference_2,
      nullptr);
  EXPECT_NE(parse(json_request({{"prompt", "a"}, {"reference", url}})).job.settings.request.reference,
            nullptr);
  for (const json& wrong : {json::array(), json({url, url, url, url, url}), json({url, 5}),
                            json({{{"file", 0}}}), json({url, "/etc/passwd"})})
    EXPECT_EQ(refusal_of("reference", wrong).param, "reference") << wrong;
  EXPECT_EQ(refusal(json_request({{"prompt", "a"}, {"reference", {url, url}}, {"reference_2", url}})).param,
            "reference");
}

TEST_F(VideoFields, WhatIsNoVideoIsRefused) {
  const std::string bytes = film(5);
  for (const std::string& wrong :
       {std::string(), std::string("no video"), bytes.substr(0, 400), golden("read_s16.wav"),
        std::string("#EXTM3U\nfile:///etc/passwd\n"), std::string("ffconcat version 1.0\nfile /etc/passwd\n"),
        std::string("f_%04d.png"), golden("bits1.png").substr(0, 40)}) {
    const Answer answer = refusal_of_file("control_video", wrong);
    EXPECT_EQ(answer.code, "invalid_value") << wrong.substr(0, 20);
    EXPECT_EQ(answer.param, "control_video");
    EXPECT_THAT(answer.message, Not(HasSubstr(folder_.string())));
  }
  for (const json& wrong : {json("/etc/passwd"), json("file:///etc/passwd"), json("f_%04d.png"), json(5),
                            json::array(), json({{"path", "/etc/passwd"}}), json({{"file", 0}})})
    EXPECT_EQ(refusal_of("video", wrong).param, "video") << wrong;
}

// A plan may tell a video by what it is; a job may not.
TEST_F(VideoFields, AreToldByTheirFactsInPlansAlone) {
  const json facts = {{"width", 832}, {"height", 480}, {"fps", 16}, {"frames", 81}};
  const auto planned = [&](const json& value) {
    Fields fields = fields_of(json_request({{"prompt", "a"}, {"control_video", value}}));
    fields.plans = true;
    return parse_job(fields, caller_, offers_);
  };
  const JobRequest job = planned(facts);
  EXPECT_EQ(job.job.settings.request.control_video->frames, 81);
  EXPECT_TRUE(job.files.empty());
  EXPECT_NE(planned({{"width", 832}, {"height", 480}, {"fps", 16}, {"frames", 80}}).fingerprint,
            job.fingerprint);
  EXPECT_EQ(refusal_of("control_video", facts).param, "control_video");
  for (const json& wrong :
       {json({{"frames", 81}}), json({{"width", 0}, {"height", 1}, {"fps", 1}, {"frames", 1}}),
        json({{"width", 1}, {"height", 1}, {"fps", -1}, {"frames", 1}}),
        json({{"width", 1}, {"height", 1}, {"fps", 1}, {"frames", 1e12}})})
    EXPECT_EQ(refused([&] { planned(wrong); }).param, "control_video") << wrong;
}

// A file that was cut off has the frames that are there, or is refused by what is wrong with it.
TEST_F(VideoFields, AVideoThatIsCutOff) {
  const std::string bytes = film(48, 64, 90);
  int refusals = 0;
  for (size_t parts = 1; parts < 12; ++parts) {
    const http::Request request = with_file("video", bytes.substr(0, bytes.size() * parts / 12));
    const Answer answer = refusal(request);
    refusals += answer.code == "invalid_value";
    if (answer.code.empty()) {
      EXPECT_LT(parse(request).job.settings.request.video->frames, 48) << parts;
    }
  }
  EXPECT_GT(refusals, 0);
}

TEST_F(VideoFields, TooManyFramesAreRefused) {
  const json facts = {{"width", 8}, {"height", 8}, {"fps", 16}, {"frames", kMostVideoFrames + 1}};
  Fields fields = fields_of(json_request({{"prompt", "a"}, {"video", facts}}));
  fields.plans = true;
  EXPECT_EQ(refused([&] { parse_job(fields, caller_, offers_); }).param, "video");
  const auto path = folder_ / "long.mp4";
  std::ofstream(path, std::ios::binary) << film(40);
  EXPECT_THROW(read_footage(path, {.frames = 39}), Error);
  EXPECT_EQ(read_footage(path, {.frames = 40}).frames, 40);
  EXPECT_THROW(read_footage(path, {.pixels = 1023}), Error);
}

}  // namespace
}  // namespace tachy::web_api
