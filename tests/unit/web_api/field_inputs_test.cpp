// Tests pictures and sounds of a request: the ways to send them, and files that are not what they should be.
#include "input_case.h"
#include "web_api/fields/inputs.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string number(uint64_t value, int bytes, bool big) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * (big ? bytes - 1 - i : i));
  return out;
}

// A picture's header that claims so many pixels.
std::string claims(uint64_t width, uint64_t height) {
  std::string png = golden("bits1.png");
  return png.replace(16, 4, number(width, 4, true)).replace(20, 4, number(height, 4, true));
}

// A silent recording of 8 bits at 8 kHz.
std::string silence(size_t seconds) {
  const size_t samples = 8000 * seconds;
  return "RIFF" + number(samples + 36, 4, false) + "WAVEfmt " + number(16, 4, false) + number(1, 2, false) +
         number(1, 2, false) + number(8000, 4, false) + number(8000, 4, false) + number(1, 2, false) +
         number(8, 2, false) + "data" + number(samples, 4, false) + std::string(samples, '\x80');
}

TEST_F(InputFields, APartIsAFile) {
  const http::Request request = with_file("input_reference", golden("bits1.png"), "C:\\pictures\\my cat.png");
  const JobRequest job = parse(request);
  ASSERT_NE(job.job.settings.request.image, nullptr);
  EXPECT_GT(job.job.settings.request.image->width, 0);
  const std::string sha256 = request.parts[1].file->sha256;
  EXPECT_EQ(job.job.settings.inputs.at("image").path, request.parts[1].file->path().string());
  EXPECT_EQ(job.job.settings.inputs.at("image").sha256, sha256);
  EXPECT_EQ(job.given["input_reference"], json({{"file", "my cat.png"}, {"sha256", sha256}}));
  ASSERT_EQ(job.files.size(), 1U);
  EXPECT_EQ(job.files[0], request.parts[1].file);
}

TEST_F(InputFields, ADataUrlIsAFile) {
  const std::string url = data_url(golden("bits1.png"));
  const JobRequest part = parse(with_file("image", golden("bits1.png")));
  for (const json& value : {json(url), json({{"image_url", url}}), json(json({{"image_url", url}}).dump())}) {
    const JobRequest job = parse(json_request({{"prompt", "a cat"}, {"input_reference", value}}));
    ASSERT_NE(job.job.settings.request.image, nullptr);
    EXPECT_EQ(job.fingerprint, part.fingerprint);
    ASSERT_EQ(job.files.size(), 1U);
    EXPECT_EQ(job.files[0]->path().parent_path(), offers_.spool);
    EXPECT_EQ(jobs::sha256_of(job.files[0]->path().string(), "image"), job.files[0]->sha256);
    EXPECT_EQ(job.given["input_reference"]["file"], "");
  }
  const JobRequest job = parse(form({{"prompt", "a cat"}, {"input_reference[image_url]", url}}));
  EXPECT_EQ(job.fingerprint, part.fingerprint);
}

TEST_F(InputFields, TheSpoolIsLeftClean) {
  const std::string url = data_url(golden("bits1.png"));
  const size_t before = files_in_spool();
  parse(json_request({{"prompt", "a cat"}, {"input_reference", url}}));
  EXPECT_EQ(refusal_of("input_reference", data_url("no picture")).code, "invalid_value");
  EXPECT_EQ(files_in_spool(), before);
}

TEST_F(InputFields, TalkingPhotosHaveAllTheirInputs) {
  http::Request request = form({{"prompt", "they talk"},
                                {"input_reference", ""},
                                {"audio_reference", ""},
                                {"audio_reference_2", ""},
                                {"speaker_mask", ""},
                                {"speaker_mask_2", ""},
                                {"last_image", ""},
                                {"speaker_boxes[]", "0,0,4,4"},
                                {"speaker_boxes[]", "4,0,8,4"},
                                {"speakers", "add"}});
  for (size_t i : {1, 4, 5, 6}) request.parts[i].file = spooled(golden("bits1.png"));
  for (size_t i : {2, 3}) request.parts[i].file = spooled(golden("read_s16.wav"));
  const JobRequest job = parse(request);
  const VideoRequest& r = job.job.settings.request;
  EXPECT_TRUE(r.image && r.last_image && r.speech && r.speech_2 && r.speaker_mask && r.speaker_mask_2);
  EXPECT_GT(r.speech->samples.size(), 0U);
  EXPECT_THAT(r.speaker_boxes, testing::ElementsAre("0,0,4,4", "4,0,8,4"));
  EXPECT_EQ(job.job.settings.inputs.size(), 6U);
  EXPECT_EQ(job.files.size(), 6U);
}

TEST_F(InputFields, SoundsComeAsDataToo) {
  const std::string url = data_url(golden("read_s16.wav"), "audio/wav");
  EXPECT_NE(parse(json_request({{"prompt", "a"}, {"audio_reference", {{"audio_url", url}}}}))
                .job.settings.request.speech,
            nullptr);
  EXPECT_EQ(refusal_of("audio_reference", {{"image_url", url}}).param, "audio_reference");
  EXPECT_EQ(refusal_of("input_reference", {{"audio_url", url}}).param, "input_reference");
}

TEST_F(InputFields, TheContentDecides) {
  // A name and a type say nothing.
  EXPECT_NO_THROW(parse(with_file("input_reference", golden("bits1.png"), "sound.mp3")));
  EXPECT_NO_THROW(
      parse(json_request({{"prompt", "a"}, {"image", data_url(golden("bits1.png"), "text/html")}})));
  const std::pair<const char*, std::string> rows[] = {
      {"input_reference", ""},
      {"input_reference", "GIF89a"},
      {"input_reference", "%PDF-1.4"},
      {"input_reference", golden("read_s16.wav")},
      {"input_reference", golden("bits1.png").substr(0, 40)},
      {"audio_reference", golden("bits1.png")},
      {"audio_reference", ""},
      {"audio_reference", "RIFF"},
      {"last_image", "<svg xmlns='http://www.w3.org/2000/svg'/>"},
      {"speaker_mask", "#EXTM3U\nfile:///etc/passwd\n"},
      {"audio_reference", "#EXTM3U\nfile:///etc/passwd\n"},
      {"audio_reference", "ffconcat version 1.0\nfile /etc/passwd\n"}};
  for (const auto& [name, bytes] : rows) {
    const Answer answer = refusal_of_file(name, bytes);
    EXPECT_EQ(answer.status, 400) << name << " " << bytes.substr(0, 20);
    EXPECT_EQ(answer.code, "invalid_value");
    EXPECT_EQ(answer.param, name);
    EXPECT_THAT(answer.message, Not(HasSubstr(folder_.string())));
  }
}

TEST_F(InputFields, BombsAreRefused) {
  const Answer pixels = refusal_of_file("input_reference", claims(9000, 9000));
  EXPECT_EQ(pixels.code, "invalid_value");
  EXPECT_THAT(pixels.message, HasSubstr("40000000 pixels"));
  EXPECT_EQ(refusal_of_file("input_reference", claims(1 << 30, 1 << 30)).status, 400);
  const Answer seconds = refusal_of_file("audio_reference", silence(1801));
  EXPECT_EQ(seconds.code, "invalid_value");
  EXPECT_THAT(seconds.message, HasSubstr("longer than 1800 seconds"));
  http::Request request = with_file("input_reference", golden("bits1.png"));
  request.parts[1].file->bytes = kMostPictureBytes + 1;
  EXPECT_EQ(refusal(request).status, 413);
  offers_.upload_bytes = 10;
  const Answer large = refusal_of("input_reference", data_url(golden("bits1.png")));
  EXPECT_EQ(large.status, 413);
  EXPECT_THAT(large.message, HasSubstr("at most 10 "));
}

TEST_F(InputFields, OtherValuesAreRefused) {
  for (const json& wrong : {json(""),
                            json("cat.png"),
                            json("/etc/passwd"),
                            json("file:///etc/passwd"),
                            json("data:image/png,abc"),
                            json("data:image/png;base64"),
                            json("data:image/png;base64,a b="),
                            json("data:;base64,===="),
                            json("ftp://host/x"),
                            json("http://example.org/cat.png"),
                            json("HTTPS://example.org/cat.png"),
                            json({{"file", 0}}),
                            json({{"file_id", "f"}}),
                            json({{"image_url", 5}}),
                            json({{"image_url", {{"url", "x"}}}}),
                            json::object(),
                            json({{"path", "/etc/passwd"}}),
                            json("{\"file\": 0}"),
                            json("[]"),
                            json(5),
                            json(true)}) {
    const Answer answer = refusal_of("input_reference", wrong);
    EXPECT_EQ(answer.code, "invalid_value") << wrong;
    EXPECT_EQ(answer.param, "input_reference") << wrong;
  }
  EXPECT_THAT(refusal_of("input_reference", "http://example.org/cat.png").message,
              HasSubstr("fetches nothing"));
}

TEST_F(InputFields, APlaceAmongFilesCannotBeForged) {
  // Another field's file, by its place, as JSON in a text and by brackets.
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"input_reference", R"({"file": 0})"},
                                   {"input_reference[file]", "0"},
                                   {"extra_params", R"({"input_reference": {"file": 0}})"}}) {
    http::Request request = with_file("last_image", golden("bits1.png"));
    request.parts.push_back({name, text, nullptr});
    EXPECT_EQ(refusal(request).param, "input_reference") << name;
  }
  // A file where a text belongs.
  http::Request request = with_file("negative_prompt", "dogs");
  EXPECT_EQ(refusal(request).param, "negative_prompt");
  request = with_file("loras", R"([{"name":"film"}])");
  EXPECT_EQ(refusal(request).param, "loras");
  request = with_file("extra_params", "{}");
  EXPECT_EQ(refusal(request).code, "invalid_value");
  request = with_file("unknown", "{}");
  EXPECT_EQ(refusal(request).code, "unknown_parameter");
}

TEST_F(InputFields, OnlyListedHostsAreFetchedFrom) {
  offers_.url_hosts = {"files.example.org"};
  const Answer answer = refusal_of("input_reference", "http://127.0.0.1:9/cat.png");
  EXPECT_EQ(answer.code, "invalid_value");
  EXPECT_EQ(answer.param, "input_reference");
}

TEST(ShownFilename, HasNoPathAndNoTricks) {
  EXPECT_EQ(shown_filename("../../etc/passwd"), "passwd");
  EXPECT_EQ(shown_filename("C:\\a\\b.png"), "b.png");
  EXPECT_EQ(shown_filename("a\nb.png"), "a_b.png");
  EXPECT_EQ(shown_filename("\xff.png"), "");
  EXPECT_EQ(shown_filename("dir/"), "");
  EXPECT_EQ(shown_filename(std::string(300, 'a')).size(), 200U);
}

}  // namespace
}  // namespace tachy::web_api
