// Tests runs of the C interface: frames, latents, settings and pictures that go in and out, the callbacks, and
// cancelling one run among others.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "c_run_case.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(CRun, GivesTheFramesOfTheFirstRequest) {
  const tachyscope_request first = {.prompt = "a red cat", .guidance = -1, .shift = -1, .seed = 3};
  std::vector<uint8_t> want;
  ASSERT_EQ(tachyscope_generate(
                engine, &first,
                [](void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t) {
                  auto& to = *static_cast<std::vector<uint8_t>*>(user);
                  to.insert(to.end(), rgb, rgb + 3 * width * height);
                  return 0;
                },
                nullptr, &want),
            0);
  Seen seen;
  EXPECT_EQ(code(request_2("a red cat"), &seen), 0) << tachyscope_last_error();
  EXPECT_EQ(seen.rgb, want);
  EXPECT_EQ(seen.frames, 5);
  EXPECT_GT(seen.previews, 0);
  EXPECT_EQ(seen.latents.size(), size_t{16} * 2 * 2 * 4);
  EXPECT_THAT(seen.stages, testing::IsSupersetOf({"text", "denoise", "decode"}));
}

TEST_F(CRun, TellsSizeAndSettingsBeforehand) {
  tachyscope_request_v2 r = request_2("a red cat");
  const tachyscope_setting settings[] = {{"num_inference_steps", "2"}, {"fps", "12.5"}, {"level", "none"}};
  r.frames = 9, r.settings = settings, r.setting_count = 3;
  tachyscope_run* run = nullptr;
  ASSERT_EQ(tachyscope_run_open(engine, &r, &run), 0) << tachyscope_last_error();
  tachyscope_video_size size = {};
  EXPECT_EQ(tachyscope_run_size(run, &size), 0) << tachyscope_last_error();
  EXPECT_EQ(size.frames, 9);
  EXPECT_EQ(size.fps, 12.5);
  const char* json = nullptr;
  ASSERT_EQ(tachyscope_run_settings(run, &json), 0);
  const auto told = nlohmann::json::parse(json);
  EXPECT_EQ(told["num_inference_steps"], 2);
  EXPECT_EQ(told["level"], "none");
  EXPECT_EQ(told["prompt"], "a red cat");
  EXPECT_EQ(told["device"], "cpu");
  tachyscope_sound sound = {};
  EXPECT_EQ(tachyscope_run_sound(run, &sound), 0);
  EXPECT_EQ(sound.count, 0);
  tachyscope_run_free(run);
}

TEST_F(CRun, LatentsGoInAndOut) {
  Seen seen, from_noise;
  ASSERT_EQ(code(request_2("a red cat"), &from_noise), 0);
  std::vector<float> noise(from_noise.latents.size(), 0.25f);
  const int64_t shape[] = {16, 2, 2, 4};
  const tachyscope_tensor latents = {nullptr, noise.data(), shape, 4};
  tachyscope_request_v2 r = request_2("a red cat");
  r.init_latents = &latents;
  EXPECT_EQ(code(r, &seen), 0) << tachyscope_last_error();
  EXPECT_NE(seen.latents, from_noise.latents);
  noise[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(r), AllOf(HasSubstr("`init_latents`"), HasSubstr("NaN")));
  const int64_t huge[] = {1 << 20, 1 << 20, 1 << 20, 4}, short_one[] = {16, 1, 2, 4};
  noise[7] = 0;
  const tachyscope_tensor wrong[] = {{nullptr, noise.data(), huge, 4},
                                     {nullptr, noise.data(), short_one, 4},
                                     {nullptr, noise.data(), shape, 9},
                                     {nullptr, nullptr, shape, 4},
                                     {nullptr, noise.data(), nullptr, 4}};
  for (const tachyscope_tensor& w : wrong) {
    r.init_latents = &w;
    EXPECT_THAT(refusal(r), HasSubstr("`init_latents`"));
  }
}

TEST_F(CRun, APictureReachesTheModel) {
  tachyscope_free(engine);
  engine = opened("image_pipeline/i2v22");
  std::vector<uint8_t> rgb(size_t{3} * 40 * 30, 200);
  const tachyscope_picture light = {nullptr, rgb.data(), 40, 30};
  tachyscope_request_v2 r = request_2("a red cat");
  r.width = r.height = 32, r.frames = 5, r.steps = 1;
  EXPECT_THAT(refusal(r), HasSubstr("`image`"));
  r.image = &light;
  Seen one, other;
  EXPECT_EQ(code(r, &one), 0) << tachyscope_last_error();
  std::fill(rgb.begin(), rgb.end(), 20);
  EXPECT_EQ(code(r, &other), 0) << tachyscope_last_error();
  EXPECT_NE(one.rgb, other.rgb);
}

// On a CPU the frames lie in the host's memory. The struct of an older header, without the function, is taken as well.
TEST_F(CRun, FramesCanBeLeftWhereTheyAre) {
  Seen want;
  ASSERT_EQ(code(request_2("a red cat"), &want), 0) << tachyscope_last_error();
  const tachyscope_request_v2 r = request_2("a red cat");
  Seen seen;
  tachyscope_callbacks to = callbacks_into(seen);
  to.device_frames = [](void* user, const tachyscope_device_frames* f) {
    auto& all = *static_cast<Seen*>(user);
    EXPECT_EQ(f->gpu, -1);
    EXPECT_EQ(f->first, all.frames);
    all.rgb.insert(all.rgb.end(), f->rgb, f->rgb + f->count * f->height * f->width * 3);
    all.frames += static_cast<int>(f->count);
    return all.stop_at == f->first ? 1 : 0;
  };
  const auto run_once = [&] {
    tachyscope_run* run = nullptr;
    EXPECT_EQ(tachyscope_run_open(engine, &r, &run), 0) << tachyscope_last_error();
    const int out = tachyscope_run_generate(run, &to);
    tachyscope_run_free(run);
    return out;
  };
  EXPECT_EQ(run_once(), 0) << tachyscope_last_error();
  EXPECT_EQ(seen.rgb, want.rgb);
  EXPECT_EQ(seen.frames, 5);
  seen = {}, seen.stop_at = 0;
  EXPECT_EQ(run_once(), 130);
  EXPECT_EQ(seen.frames, 1);
  seen = {}, to.size = offsetof(tachyscope_callbacks, device_frames);
  EXPECT_EQ(run_once(), 0) << tachyscope_last_error();
  EXPECT_EQ(seen.rgb, want.rgb);
  to.size -= 1;
  EXPECT_EQ(run_once(), 2);
}

TEST_F(CRun, SettingsHaveTheHashesOfFiles) {
  tachyscope_free(engine);
  engine = opened("image_pipeline/i2v22");
  const std::string file = kGolden + "image_pipeline/first.png";
  const tachyscope_picture first = {file.c_str(), nullptr, 0, 0};
  tachyscope_request_v2 r = request_2("a red cat");
  r.width = r.height = 32, r.frames = 5, r.steps = 1, r.image = &first;
  tachyscope_run* run = nullptr;
  ASSERT_EQ(tachyscope_run_open(engine, &r, &run), 0) << tachyscope_last_error();
  const char* json = nullptr;
  ASSERT_EQ(tachyscope_run_settings(run, &json), 0) << tachyscope_last_error();
  const auto told = nlohmann::json::parse(json);
  EXPECT_EQ(told["image"], file);
  EXPECT_EQ(told["image_sha256"], sha256_of_file(file, "image"));
  tachyscope_run_free(run);
  const tachyscope_picture none = {"none.png", nullptr, 0, 0};
  r.image = &none;
  EXPECT_EQ(tachyscope_run_open(engine, &r, &run), 3);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("`image`: cannot read none.png"));
}

TEST_F(CRun, EndsAloneAndStaysEnded) {
  Seen stopped, whole;
  stopped.stop_at = 0;
  EXPECT_EQ(code(request_2("a red cat"), &stopped), 130);
  EXPECT_LT(stopped.frames, 5);
  EXPECT_EQ(code(request_2("a red cat"), &whole), 0);
  EXPECT_EQ(whole.frames, 5);

  const tachyscope_request_v2 r = request_2("a red cat");
  tachyscope_run *first = nullptr, *second = nullptr;
  ASSERT_EQ(tachyscope_run_open(engine, &r, &first), 0);
  ASSERT_EQ(tachyscope_run_open(engine, &r, &second), 0);
  tachyscope_run_cancel(first);
  Seen none, all;
  const tachyscope_callbacks to_none = callbacks_into(none), to_all = callbacks_into(all);
  EXPECT_EQ(tachyscope_run_generate(first, &to_none), 130);
  EXPECT_EQ(tachyscope_run_generate(second, &to_all), 0);
  EXPECT_EQ(all.rgb, whole.rgb);
  tachyscope_run_free(first);
  tachyscope_run_free(second);
}

TEST_F(CRun, SavesVideos) {
  const std::filesystem::path folder = testing::TempDir() + "/c_run_test";
  std::filesystem::create_directories(folder);
  const std::vector<uint8_t> rgb(size_t{3} * 16 * 16 * 2, 99);
  tachyscope_video video = {};
  video.size = sizeof video, video.rgb = rgb.data(), video.frames = 2, video.width = video.height = 16,
  video.fps = 8;
  const std::string path = folder / "a.mp4";
  EXPECT_EQ(tachyscope_save(path.c_str(), &video), 0) << tachyscope_last_error();
  EXPECT_GT(std::filesystem::file_size(path), 100u);
  EXPECT_EQ(tachyscope_save((folder / "no/such/a.mp4").c_str(), &video), 6);
  EXPECT_EQ(tachyscope_save((folder / "a.txt").c_str(), &video), 5);
  EXPECT_EQ(tachyscope_save(nullptr, &video), 2);
  EXPECT_EQ(tachyscope_save(path.c_str(), nullptr), 2);
  video.frames = 0;
  EXPECT_EQ(tachyscope_save(path.c_str(), &video), 2);
  video.size = 3;
  EXPECT_EQ(tachyscope_save(path.c_str(), &video), 2);
  std::filesystem::remove_all(folder);
}

TEST(CFields, TheTablesAsJson) {
  const auto tables = nlohmann::json::parse(tachyscope_fields());
  const auto named = [&](const char* table, const char* name) {
    for (const auto& field : tables[table])
      if (field["name"] == name) return field;
    return nlohmann::json();
  };
  EXPECT_EQ(named("request", "steps")["most"], 1000);
  EXPECT_EQ(named("request", "steps")["kind"], "int");
  EXPECT_EQ(named("request", "frames")["key"], "num_frames");
  EXPECT_FALSE(named("request", "steps").contains("default"));
  EXPECT_EQ(named("request", "window_overlap")["default"], 16);
  EXPECT_EQ(named("request", "rng")["choices"], (std::vector<std::string>{"cpu", "cuda"}));
  EXPECT_EQ(named("inputs", "speech")["kind"], "sound");
  EXPECT_EQ(named("engine", "keep_loaded")["kind"], "bool");
}

}  // namespace
}  // namespace tachy::test
