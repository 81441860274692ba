// Tests jobs with inputs: a talking photo that is stopped keeps its frames and as much sound, and a video that is to
// tell no path tells none, and can still be repeated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../cli/binary.h"
#include "../pipelines/talk_weights.h"
#include "jobs/job_runner.h"
#include "jobs/open_engine.h"
#include "media/metadata.h"
#include "media/sound/sound_reader.h"
#include "media/video/video_reader.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr int kFrames = 28;  // windows begin at 0, 4, 8 …

struct QuietSink : JobSink {
  std::function<void(const Progress&)> look = [](const Progress&) {};
  void event(const json&, const std::string&) override {}
  void notice(const std::string&) override {}
  void progress(const Progress& p) override { look(p); }
  void end_of_progress() override {}
  void can_go_on(const std::string&) override {}
};

class TalkJobs : public test::CliTest {
 protected:
  JobSpec spec(const std::string& output) {
    if (!fs::exists(path("voice.wav"))) test::write_voice(path("voice.wav"), kFrames);
    const PartPaths parts = test::TalkWeights(folder_).parts;
    JobSpec job;
    const std::string given = test::golden("image_pipeline/");
    RunSettings& s = job.settings;
    s.model = given + "i2v";
    s.parts = {{"infinitetalk", parts.infinitetalk.string()},
               {"audio_encoder", parts.audio_encoder.string()}};
    s.inputs["image"].path = given + "first.png", s.inputs["speech"].path = path("voice.wav");
    s.inputs["image_embeds"].path = given + "embeds.safetensors";
    VideoRequest& r = s.request;
    r.prompt = "the red cat moves", r.width = 48, r.height = 32, r.window_frames = 9, r.motion_frames = 5;
    r.steps = 3, r.sampler = "lcm", r.image_fit = "crop", r.seed = 3;
    load_inputs(s);
    job.output = path(output), job.state_every = 3600, job.crf = 0;
    return job;
  }
  bool make(const JobSpec& job, QuietSink& sink, const JobControl& control = {}) {
    Engine engine = std::move(open_engine(job, {.threads = 2, .device = "cpu"}, sink).engine);
    JobStore store(control.cancel);
    JobRunner runner(engine, store, sink, control);
    return runner.run(job, runner.prepare(job));
  }
  static void expect_first_frames(const fs::path& some, const fs::path& all) {
    const auto kept = read_video(some), whole = read_video(all);
    ASSERT_LT(kept.size(), whole.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].rgb, whole[i].rgb) << i;
  }
};

TEST_F(TalkJobs, AStoppedPhotoKeepsItsFramesAndTheirSound) {
  QuietSink whole;
  ASSERT_TRUE(make(spec("whole.mp4"), whole));
  std::atomic<bool> cancel{false}, keep{true};
  QuietSink sink;
  sink.look = [&](const Progress& p) {
    cancel = cancel || (p.window == 2 && p.stage == "denoise" && p.done > 6);
  };
  JobSpec job = spec("clip.mp4");
  ASSERT_TRUE(make(job, sink, {.cancel = &cancel, .keep = &keep}));
  EXPECT_EQ(read_video(job.output).size(), 13u) << "two windows: 9 frames and 4 more";
  expect_first_frames(job.output, path("whole.mp4"));
  const Sound sound = read_sound(job.output);
  EXPECT_NEAR(double(sound.samples.size()) / sound.rate, 13 / 25.0, 0.04);
  EXPECT_FALSE(fs::exists(path("clip.mp4.windows")));

  // A job that was interrupted, and is then to end with what it has, goes no further than that.
  std::atomic<bool> interrupt{false};
  job.output = path("second.mp4");
  sink.look = [&](const Progress& p) { interrupt = interrupt || (p.window == 1 && p.done > 4); };
  EXPECT_THROW(make(job, sink, {.cancel = &interrupt}), Error);
  ASSERT_TRUE(fs::exists(path("second.mp4.resume")));
  job.resume = true, sink.look = [](const Progress&) {};
  ASSERT_TRUE(make(job, sink, {.cancel = &interrupt, .keep = &keep}));
  EXPECT_EQ(read_video(job.output).size(), 9u);
  expect_first_frames(job.output, path("whole.mp4"));
}

TEST_F(TalkJobs, AVideoTellsNoPathAndCanBeRepeated) {
  QuietSink sink;
  JobSpec job = spec("clip.mp4");
  job.private_paths = true;
  ASSERT_TRUE(make(job, sink));
  for (const char* name : {"clip.mp4", "clip.json"}) {
    const std::string text = test::read_text(path(name));
    for (const std::string& part : {folder_.string(), std::string(TACHY_SOURCE_DIR), std::string("golden/")})
      EXPECT_THAT(text, Not(HasSubstr(part))) << name;
  }
  const json settings = json::parse(read_comment(job.output));
  EXPECT_EQ(settings.at("image"), "first.png");
  EXPECT_EQ(settings.at("image_sha256"), sha256_of(test::golden("image_pipeline/first.png"), "image"));
  EXPECT_EQ(settings.at("model"), "i2v");
  EXPECT_EQ(settings.at("infinitetalk"), "infinitetalk.safetensors");
  EXPECT_EQ(settings.at(kFingerprint).get<std::string>().size(), 64u);
  EXPECT_FALSE(settings.at("tachyscope").get<std::string>().empty());

  fs::copy_file(test::golden("image_pipeline/first.png"), path("moved.png"));
  const test::Done done =
      run({"generate", "--from", "clip.mp4", "--image", "moved.png", "--speech", "voice.wav",
           "--image-embeds", test::golden("image_pipeline/embeds.safetensors"), "-m",
           test::golden("image_pipeline/i2v"), "--infinitetalk", path("infinitetalk.safetensors").string(),
           "--audio-encoder", job.settings.parts.at("audio_encoder"), "--crf", "0", "-o", "again.mp4"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto first = read_video(job.output), again = read_video(path("again.mp4"));
  ASSERT_EQ(first.size(), again.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].rgb, again[i].rgb) << i;
}

// Whoever repeats a video of the model that ships need not name it.
TEST_F(TalkJobs, TheModelThatShipsNeedsNoName) {
  const std::string models = std::string(TACHY_SOURCE_DIR) + "/models";
  if (!fs::exists(models + "/sprites/model_index.json")) GTEST_SKIP() << "the shipped models are not here";
  setenv("TACHY_MODEL_DIR", models.c_str(), 1);
  JobSpec job;
  job.settings.model = shipped_model("sprites").string();
  VideoRequest& r = job.settings.request;
  r.prompt = "a red circle moves right", r.width = r.height = 64, r.frames = 5, r.steps = 1;
  job.output = path("clip.mp4"), job.private_paths = true;
  QuietSink sink;
  ASSERT_TRUE(make(job, sink));
  unsetenv("TACHY_MODEL_DIR");
  const json settings = json::parse(read_comment(job.output));
  EXPECT_FALSE(settings.contains("model"));
  EXPECT_EQ(settings.at("environment").at("TACHY_MODEL_DIR"), "models") << "its folder is nobody's business";
}

}  // namespace
}  // namespace tachy::jobs
