// Tests what the unmodified openai client sends: requests as they came over the wire (bodies/, made by
// tests/serve/record_bodies.py), read as the HTTP server reads them.
#include "field_case.h"
#include "http/form.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class Recorded : public FieldCase {
 protected:
  http::Request recorded(const std::string& name) {
    std::ifstream in(std::string(TACHY_SOURCE_DIR) + "/tests/unit/web_api/bodies/" + name + ".http",
                     std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(in), {});
    const size_t end = all.find("\r\n\r\n");
    EXPECT_NE(end, all.npos) << name;
    http::Request out{.method = all.substr(0, all.find(' '))};
    for (size_t at = all.find("\r\n"); at < end;) {
      const size_t next = all.find("\r\n", at + 2);
      const std::string line = all.substr(at + 2, next - at - 2);
      out.headers.emplace_back(line.substr(0, line.find(':')), line.substr(line.find(':') + 2));
      at = next;
    }
    out.body = all.substr(end + 4);
    const http::BodyKind kind = http::body_kind(out, true);
    EXPECT_FALSE(kind.unsupported);
    out.body_kind = kind.kind;
    if (kind.kind != http::Request::Body::multipart) return out;
    http::Form form(kind.boundary, {}, spool_);
    form.push(out.body);
    out.parts = form.finish();
    return out;
  }
  VideoRequest request_of(const std::string& name) { return parse(recorded(name)).job.settings.request; }

  http::Spool spool_{folder_ / "spool"};
};

TEST_F(Recorded, TextToVideo) {
  const JobRequest job = parse(recorded("plain"));
  EXPECT_EQ(job.model, "wan");
  EXPECT_EQ(job.job.settings.request.prompt, "a red circle moves right");
  EXPECT_EQ(job.job.settings.request.width, 832);
  const double fps = *models_.open("wan")->defaults().fps;
  EXPECT_EQ(job.job.settings.request.frames, 4 * std::round(fps) + 1);
  EXPECT_EQ(request_of("five").prompt, "5");
  EXPECT_TRUE(parse(recorded("none")).seed_drawn);
}

TEST_F(Recorded, APictureAsAFile) {
  const JobRequest job = parse(recorded("file"));
  ASSERT_NE(job.job.settings.request.image, nullptr);
  EXPECT_EQ(job.job.settings.request.image->width, 1);
  EXPECT_EQ(job.given["input_reference"]["file"], "cat.png");
}

TEST_F(Recorded, FurtherFields) {
  const VideoRequest numbers = request_of("numbers");
  EXPECT_EQ(numbers.frames, 17);
  EXPECT_EQ(numbers.guidance, 4.5);
  EXPECT_EQ(numbers.seed, 18446744073709551615U);
  EXPECT_EQ(numbers.free_noise, "on");
  const VideoRequest nested = request_of("nested");
  EXPECT_EQ(nested.steps, 7);
  EXPECT_EQ(nested.shift, 3);
}

TEST_F(Recorded, ListsComeByColumns) {
  const VideoRequest r = request_of("lists");
  EXPECT_THAT(r.without, ElementsAre("fused-norms", "attention"));
  EXPECT_THAT(r.loras, ElementsAre((folder_ / "loras/anime.safetensors:0.5").string(),
                                   (folder_ / "loras/film.safetensors:1").string()));
  const Answer answer = refusal(recorded("unequal"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.param, "loras");
  const VideoRequest text = request_of("json_text");
  EXPECT_EQ(text.loras.size(), 1U);
  EXPECT_EQ(text.frames, 5);
}

TEST_F(Recorded, ADataUrlInBrackets) {
  const Answer answer = refusal(recorded("data_url"));  // the picture has eight bytes
  EXPECT_EQ(answer.param, "input_reference");
  EXPECT_EQ(answer.code, "invalid_value");
}

TEST_F(Recorded, ARemixIsJson) {
  const json base = {{"prompt", "a cat"}, {"num_frames", 9}, {"seed", 3}};
  const VideoRequest plain = parse(recorded("remix"), &base).job.settings.request;
  EXPECT_EQ(plain.prompt, "a dog");
  EXPECT_EQ(plain.frames, 9);
  EXPECT_EQ(plain.seed, 3U);
  const VideoRequest more = parse(recorded("remix_more"), &base).job.settings.request;
  EXPECT_EQ(more.seed, 7U);
  EXPECT_EQ(more.loras.size(), 1U);
}

}  // namespace
}  // namespace tachy::web_api
