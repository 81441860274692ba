// Tests what runs of the C interface refuse, and that the text names the field.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "c_run_case.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(CRun, SizesOfStructs) {
  tachyscope_request_v2 r = request_2("x");
  for (const uint64_t size : {uint64_t{0}, uint64_t{8}, sizeof r - 1, uint64_t{1} << 40}) {
    r.size = size;
    EXPECT_THAT(refusal(r), AllOf(HasSubstr("request"), HasSubstr("`size`")));
  }
  r.size = offsetof(tachyscope_request_v2, video);
  r.video = "what lies past the end of an older struct is not read";
  EXPECT_EQ(code(r), 0) << tachyscope_last_error();
  struct {
    tachyscope_request_v2 known;
    uint64_t more;
  } newer = {request_2("x"), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(code(newer.known), 0) << "a newer program that asks for nothing new";
  newer.more = 1;
  EXPECT_EQ(code(newer.known), 5);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("does not know"));

  r = request_2("x");
  tachyscope_run* run = nullptr;
  ASSERT_EQ(tachyscope_run_open(engine, &r, &run), 0);
  tachyscope_callbacks none = {};
  EXPECT_EQ(tachyscope_run_generate(run, &none), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("callbacks: `size`"));
  tachyscope_run_free(run);
}

TEST_F(CRun, NullsAreRefused) {
  tachyscope_run* run = nullptr;
  tachyscope_request_v2 r = request_2(nullptr);
  EXPECT_THAT(refusal(r), HasSubstr("`prompt`"));
  r = request_2("x");
  EXPECT_EQ(tachyscope_run_open(nullptr, &r, &run), 2);
  EXPECT_EQ(tachyscope_run_open(engine, nullptr, &run), 2);
  EXPECT_EQ(tachyscope_run_open(engine, &r, nullptr), 2);
  const char* json = nullptr;
  tachyscope_video_size size = {};
  tachyscope_sound sound = {};
  tachyscope_plan_result plan = {};
  EXPECT_EQ(tachyscope_run_plan(nullptr, &plan), 2);
  EXPECT_EQ(tachyscope_run_size(nullptr, &size), 2);
  EXPECT_EQ(tachyscope_run_sound(nullptr, &sound), 2);
  EXPECT_EQ(tachyscope_run_settings(nullptr, &json), 2);
  EXPECT_EQ(tachyscope_run_generate(nullptr, nullptr), 2);
  tachyscope_run_cancel(nullptr);
  tachyscope_run_free(nullptr);
  r.setting_count = 1;
  EXPECT_THAT(refusal(r), HasSubstr("`settings`"));
  const tachyscope_setting unnamed = {"steps", nullptr};
  r.settings = &unnamed;
  EXPECT_THAT(refusal(r), HasSubstr("`steps`: its value is null"));
  r = request_2("x"), r.lora_count = 1;
  EXPECT_THAT(refusal(r), HasSubstr("`loras`"));
  r.lora_count = -1;
  EXPECT_THAT(refusal(r), HasSubstr("`loras`"));
  EXPECT_EQ(tachyscope_open("x", nullptr, 1, &engine), 2);
  EXPECT_EQ(tachyscope_open("x", nullptr, 0, nullptr), 2);
}

TEST_F(CRun, ValuesThatAreNoneOfTheField) {
  const tachyscope_setting wrong[] = {{"steps", "many"}, {"steps", "2.5"},       {"steps", "99999999999"},
                                      {"steps", "1001"}, {"seed", "-1"},         {"guidance", "nan"},
                                      {"fps", ""},       {"windows", "sliding"}, {"no_such", "1"}};
  for (const tachyscope_setting& setting : wrong) {
    tachyscope_request_v2 r = request_2("x");
    r.settings = &setting, r.setting_count = 1;
    EXPECT_THAT(refusal(r), HasSubstr(std::string("`") + setting.name + "`")) << setting.value;
  }
  tachyscope_request_v2 r = request_2("x");
  r.steps = -1;
  EXPECT_THAT(refusal(r), HasSubstr("`steps`"));
  r = request_2("x"), r.guidance = std::nan("");
  EXPECT_THAT(refusal(r), HasSubstr("`guidance`"));
  r = request_2("x"), r.preset = "no-such-preset";
  EXPECT_THAT(refusal(r), HasSubstr("`preset`"));
  const tachyscope_setting options[] = {{"max_vram", "much"}};
  tachyscope_engine* none = nullptr;
  EXPECT_EQ(tachyscope_open(kGolden.c_str(), options, 1, &none), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("`max_vram`"));
}

TEST_F(CRun, TextsThatAreTooLong) {
  const std::string endless(size_t{2} << 20, 'a');
  tachyscope_request_v2 r = request_2(endless.c_str());
  EXPECT_THAT(refusal(r), AllOf(HasSubstr("`prompt`"), HasSubstr("1048576")));
  r = request_2("x"), r.negative_prompt = endless.c_str();
  EXPECT_THAT(refusal(r), HasSubstr("`negative_prompt`"));
  const char* loras[] = {endless.c_str()};
  r = request_2("x"), r.loras = loras, r.lora_count = 1;
  EXPECT_THAT(refusal(r), HasSubstr("`loras`"));
  const tachyscope_setting setting = {"sampler", endless.c_str()};
  r = request_2("x"), r.settings = &setting, r.setting_count = 1;
  EXPECT_THAT(refusal(r), HasSubstr("`sampler`"));
}

TEST_F(CRun, PicturesAndSoundsThatCannotBe) {
  const std::vector<uint8_t> rgb(48);
  const tachyscope_picture pictures[] = {{nullptr, nullptr, 4, 4},
                                         {nullptr, rgb.data(), 0, 4},
                                         {nullptr, rgb.data(), 4, -1},
                                         {nullptr, rgb.data(), 1 << 20, 1 << 20}};
  for (const tachyscope_picture& p : pictures) {
    tachyscope_request_v2 r = request_2("x");
    r.last_image = &p;
    EXPECT_THAT(refusal(r), HasSubstr("`last_image`"));
  }
  std::vector<float> samples(1600);
  samples[3] = std::numeric_limits<float>::infinity();
  const tachyscope_sound sounds[] = {{nullptr, nullptr, 10, 16000},
                                     {nullptr, samples.data(), 0, 16000},
                                     {nullptr, samples.data(), int64_t{1} << 60, 16000},
                                     {nullptr, samples.data(), 1600, 0},
                                     {nullptr, samples.data(), 1600, 16000}};
  for (const tachyscope_sound& s : sounds) {
    tachyscope_request_v2 r = request_2("x");
    r.speech = &s;
    EXPECT_THAT(refusal(r), HasSubstr("`speech`"));
  }
  const std::string video = kGolden + "vace/control";
  tachyscope_request_v2 footage = request_2("x");
  footage.video = "no/such.mp4";
  EXPECT_EQ(code(footage), 3);
  EXPECT_THAT(tachyscope_last_error(), AllOf(HasSubstr("`video`"), HasSubstr("no/such.mp4")));
  footage.video = video.c_str();
  EXPECT_EQ(code(footage), 0) << tachyscope_last_error();
  footage.video = nullptr, footage.control_video = video.c_str();
  EXPECT_EQ(code(footage), 5);
  EXPECT_THAT(tachyscope_last_error(), AllOf(HasSubstr("`control_video`"), HasSubstr("VACE")));
  const tachyscope_picture gone = {"no/such.png", nullptr, 0, 0};
  tachyscope_request_v2 r = request_2("x");
  r.image = &gone;
  EXPECT_EQ(code(r), 3);
  EXPECT_THAT(tachyscope_last_error(), AllOf(HasSubstr("`image`"), HasSubstr("no/such.png")));
}

}  // namespace
}  // namespace tachy::test
