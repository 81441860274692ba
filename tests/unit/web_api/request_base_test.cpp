// Tests what lies under the fields of a request: an earlier job's fields (remix, change) and saved presets.
#include "field_case.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using RequestBase = FieldCase;

TEST_F(RequestBase, GivenFieldsCount) {
  const json base = {{"prompt", "a cat"}, {"frames", 9}, {"seed", 7}, {"size", "64x32"}, {"steps", 3}};
  const JobRequest job = parse(json_request({{"prompt", "a dog"}, {"num_inference_steps", 5}}), &base);
  const VideoRequest& r = job.job.settings.request;
  EXPECT_EQ(r.prompt, "a dog");
  EXPECT_EQ(r.frames, 9);
  EXPECT_EQ(r.seed, 7U);
  EXPECT_EQ(r.width, 64);
  EXPECT_EQ(r.steps, 5);
  EXPECT_FALSE(job.seed_drawn);
  EXPECT_EQ(
      job.given,
      json({{"prompt", "a dog"}, {"frames", 9}, {"seed", 7}, {"size", "64x32"}, {"num_inference_steps", 5}}));
}

TEST_F(RequestBase, ANewLengthReplacesTheEarlierOne) {
  const auto frames = [&](const json& base, const json& given) {
    return *parse(json_request(given), &base).job.settings.request.frames;
  };
  EXPECT_EQ(frames({{"prompt", "a"}, {"num_frames", 9}, {"fps", 16}}, {{"seconds", 1}}), 17);
  EXPECT_EQ(frames({{"prompt", "a"}, {"seconds", "1"}, {"fps", 16}}, {{"num_frames", 5}}), 5);
  EXPECT_EQ(frames({{"prompt", "a"}, {"seconds", "1"}, {"fps", 16}}, {{"fps", 8}}), 9);
  EXPECT_EQ(frames({{"prompt", "a"}, {"seconds", 1}, {"num_frames", 13}}, {{"prompt", "b"}}), 13);
}

TEST_F(RequestBase, ANewSizeReplacesTheEarlierOne) {
  const auto size = [&](const json& base, const json& given) {
    const VideoRequest r = parse(json_request(given), &base).job.settings.request;
    return fmt::format("{}x{}", r.width.value_or(0), r.height.value_or(0));
  };
  EXPECT_EQ(size({{"prompt", "a"}, {"width", 64}, {"height", 32}}, {{"size", "48x16"}}), "48x16");
  EXPECT_EQ(size({{"prompt", "a"}, {"size", "64x32"}}, {{"size", "48x16"}}), "48x16");
  EXPECT_EQ(size({{"prompt", "a"}, {"size", "64x32"}}, {{"width", 48}}), "48x32");
  EXPECT_EQ(size({{"prompt", "a"}, {"size", "64x32"}}, {{"width", 48}, {"height", 16}}), "48x16");
  EXPECT_EQ(size({{"prompt", "a"}, {"size", "64x32"}, {"width", 16}, {"height", 16}}, {{"seed", 1}}),
            "16x16");
}

TEST_F(RequestBase, NullTakesAFieldAway) {
  const json base = {{"prompt", "a cat"}, {"seed", 7}, {"negative_prompt", "dogs"}};
  const JobRequest job = parse(json_request({{"seed", nullptr}, {"negative_prompt", nullptr}}), &base);
  EXPECT_TRUE(job.seed_drawn);
  EXPECT_FALSE(job.job.settings.request.negative_prompt);
  EXPECT_EQ(refusal(json_request({{"prompt", nullptr}}), &base).code, "missing_parameter");
}

TEST_F(RequestBase, FilesOfTheEarlierJobAreLeftOut) {
  const json base = {{"prompt", "a cat"}, {"input_reference", {{"file", "cat.png"}, {"sha256", "aa"}}}};
  const JobRequest job = parse(json_request({{"prompt", "a dog"}}), &base);
  EXPECT_TRUE(job.files.empty() && job.job.settings.inputs.empty());
  EXPECT_FALSE(job.given.contains("input_reference"));
}

TEST_F(RequestBase, SavedPresetsLieUnder) {
  presets_ = {
      {"mine", "ann", R"({"steps": 7, "negative_prompt": "dogs", "size": "64x32", "preset": "lightx2v-4"})"},
      {"mine", "bob", R"({"steps": 9})"},
      {"bobs", "bob", R"({"steps": 9})"},
      {"broken", "ann", R"({"stepz": 9})"}};
  const JobRequest job =
      parse(json_request({{"prompt", "a cat"}, {"preset", "mine"}, {"num_inference_steps", 5}}));
  const VideoRequest& r = job.job.settings.request;
  EXPECT_EQ(r.steps, 5);
  EXPECT_EQ(r.negative_prompt, "dogs");
  EXPECT_EQ(r.height, 32);
  EXPECT_EQ(r.preset, "lightx2v-4");
  // What is kept does not need the saved preset any more.
  presets_.clear();
  EXPECT_EQ(parse(json_request(json::object()), &job.given).fingerprint, job.fingerprint);
}

TEST_F(RequestBase, UnknownPresetsAreRefused) {
  presets_ = {{"bobs", "bob", R"({"steps": 9})"}, {"broken", "ann", R"({"stepz": 9})"}};
  for (const char* name : {"bobs", "lightx2v-5", "", "../mine"}) {
    const Answer answer = refusal_of("preset", name);
    EXPECT_EQ(answer.code, "invalid_value") << name;
    EXPECT_EQ(answer.param, "preset");
  }
  EXPECT_THAT(refusal_of("preset", "lightx2v-5").message, HasSubstr("lightx2v-4"));
  EXPECT_EQ(refusal_of("preset", "broken").code, "unknown_parameter");
}

}  // namespace
}  // namespace tachy::web_api
