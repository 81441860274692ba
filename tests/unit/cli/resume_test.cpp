// Tests --image and --resume as a user sees them: files, hashes, killed processes, refusals.
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Resume : public CliTest {
 protected:
  std::vector<std::string> job(const std::string& sampler, const std::string& output,
                               std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"a red cat", "--size",        "48x48", "--frames",  "9",     "--steps",
                                   "40",        "--state-every", "0",     "--sampler", sampler, "--json",
                                   "-o",        output};
    words.insert(words.end(), more.begin(), more.end());
    return generate(words);
  }

  // Starts a run, and kills it when `stage` has reported `done` steps. Returns false if it was over before.
  bool kill_at(const std::vector<std::string>& args, const std::string& stage, int done) {
    const pid_t child = start(args);
    for (int i = 0; i < 60000; ++i) {
      std::istringstream lines(read_text(folder_.string() + ".out"));
      for (std::string line; std::getline(lines, line);) {
        const json j = json::parse(line, nullptr, false);
        if (j.is_discarded() || j.value("event", "") != "progress" || j.at("stage") != stage) continue;
        if (j.at("done").get<int>() >= done) {
          kill(child, SIGKILL);
          return finish(child).code == 1000 + SIGKILL;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << stage << " did not get to " << done;
    kill(child, SIGKILL);
    finish(child);
    return false;
  }

  static int resumed_step(const Done& done) {
    std::istringstream lines(done.out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line, nullptr, false);
      if (!j.is_discarded() && j.value("event", "") == "resume") return j.at("step").get<int>();
    }
    return -1;
  }
};

TEST_F(Resume, KilledRunsGoOnBitForBit) {
  for (const std::string sampler : {"unipc", "euler", "dpm++", "dpm++_sde", "lcm"}) {
    ASSERT_EQ(run(job(sampler, "whole.mp4")).code, 0);
    EXPECT_FALSE(fs::exists(path("whole.mp4.resume")));
    // The run is killed three times, each time further on.
    int last = 0;
    for (const int at : {3, 12, 25}) {
      if (!kill_at(job(sampler, "cut.mp4", {"--resume"}), "denoise", at)) break;
      EXPECT_FALSE(fs::exists(path("cut.mp4")));
      ASSERT_TRUE(fs::exists(path("cut.mp4.resume"))) << sampler << " killed at " << at;
    }
    const Done rest = run(job(sampler, "cut.mp4", {"--resume"}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    last = resumed_step(rest);
    EXPECT_GE(last, 3) << sampler;
    EXPECT_EQ(read_text(path("cut.mp4")), read_text(path("whole.mp4"))) << sampler << " from step " << last;
    EXPECT_FALSE(fs::exists(path("cut.mp4.resume"))) << "gone with the completed run";
    for (const std::string& name : files()) EXPECT_FALSE(name.ends_with(".part")) << name;
    fs::remove(path("cut.mp4")), fs::remove(path("cut.json"));
  }
}

// A video made block by block resumes from the last finished block, and the frames before it are in the file
// again.
TEST_F(Resume, KilledRunsOfBlocksGoOnBitForBit) {
  const auto blocks = [&](const std::string& output, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"a red cat",
                                   "--size",
                                   "48x48",
                                   "--frames",
                                   "197",
                                   "--block",
                                   "2",
                                   "--block-window",
                                   "4",
                                   "--guidance",
                                   "1",
                                   "--sampler",
                                   "self-forcing-4",
                                   "--seed",
                                   "5",
                                   "--json",
                                   "--state-every",
                                   "0",
                                   "-o",
                                   output};
    words.insert(words.end(), more.begin(), more.end());
    return generate(words);
  };
  ASSERT_EQ(run(blocks("whole.mp4")).code, 0);
  const int steps = 4;
  ASSERT_TRUE(kill_at(blocks("cut.mp4"), "denoise", 4 * steps + 1));
  EXPECT_FALSE(fs::exists(path("cut.mp4")));
  ASSERT_TRUE(fs::exists(path("cut.mp4.resume")));
  const Done rest = run(blocks("cut.mp4", {"--resume"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_GE(resumed_step(rest), 4) << "blocks";
  EXPECT_EQ(read_text(path("cut.mp4")), read_text(path("whole.mp4")));
  EXPECT_FALSE(fs::exists(path("cut.mp4.resume")));
}

TEST_F(Resume, KilledWhileDecodingAndFromTheStateFileAlone) {
  const auto args = [&](const std::string& output) {
    return generate({"a red cat", "--steps", "3", "--state-every", "0", "--json", "--frames", "65", "--size",
                     "128x128", "--seed", "5", "-o", output});
  };
  ASSERT_EQ(run(args("whole/")).code, 0);
  ASSERT_TRUE(kill_at(args("cut/"), "decode", 1));
  ASSERT_TRUE(fs::exists(path("cut.resume")));
  const Done rest = run({"generate", "--from", "cut.resume", "--resume", "--json", "-t", "3"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(resumed_step(rest), 3);
  EXPECT_THAT(rest.out, Not(HasSubstr("denoise"))) << "only decoding was left";
  int frames = 0;
  for (const auto& entry : fs::directory_iterator(path("whole"))) {
    EXPECT_EQ(read_text(entry.path()), read_text(path("cut") / entry.path().filename())) << entry.path();
    ++frames;
  }
  EXPECT_EQ(frames, 66) << "pictures and settings";
}

TEST_F(Resume, CancelledRunsSayHowToGoOn) {
  const auto args = generate({"a cat", "--size", "96x96", "--frames", "33", "--steps", "1000", "--json",
                              "--state-every", "0", "-o", "long.mp4"});
  const pid_t child = start(args);
  for (int i = 0; i < 30000 && !fs::exists(path("long.mp4.resume")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(kill(child, SIGINT), 0);
  const Done done = finish(child);
  EXPECT_EQ(done.code, 130);
  EXPECT_THAT(done.err, AllOf(HasSubstr("cancelled"), HasSubstr("--resume")));
  EXPECT_THAT(files(), testing::ElementsAre("long.mp4.resume"));
}

TEST_F(Resume, WhatDiffersIsNamed) {
  ASSERT_TRUE(kill_at(job("unipc", "cut.mp4"), "denoise", 5));
  ASSERT_TRUE(fs::exists(path("cut.mp4.resume")));
  const std::string kept = read_text(path("cut.mp4.resume"));
  Done done = run(job("unipc", "cut.mp4", {"--resume", "--seed", "3", "--shift", "7"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--resume"), HasSubstr("seed 0, here 3"),
                              HasSubstr("flow_shift 3.0, here 7.0"), Not(HasSubstr("prompt"))));
  done = run(job("euler", "cut.mp4", {"--resume"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("sampler unipc, here euler"));
  // The same options with other weights are refused.
  fs::copy(model_path(), path("other"), fs::copy_options::recursive);
  const auto weights = path("other") / "vae" / "diffusion_pytorch_model.safetensors";
  std::string bytes = read_text(weights);
  bytes[bytes.size() - 1] ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;
  auto words = job("unipc", "cut.mp4", {"--resume"});
  *std::find(words.begin(), words.end(), model_path()) = "other";
  done = run(words);
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("the model's files"));
  // Another version is refused.
  std::string altered = kept;
  const std::string key = "\\\"tachyscope\\\":\\\"";
  const size_t at = altered.find(key);
  ASSERT_NE(at, std::string::npos);
  altered[at + key.size()] = '9';
  write("cut.mp4.resume", altered);
  done = run(job("unipc", "cut.mp4", {"--resume"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("version 9"));
  // A damaged file is refused.
  for (const size_t size : {size_t{0}, size_t{5}, kept.size() / 2, kept.size() - 1}) {
    write("cut.mp4.resume", kept.substr(0, size));
    done = run(job("unipc", "cut.mp4", {"--resume"}));
    EXPECT_EQ(done.code, 4) << size << done.err;
    EXPECT_THAT(done.err, HasSubstr("cut.mp4.resume"));
  }
  // An undamaged file can still be resumed; without --resume a run begins anew and says so.
  write("cut.mp4.resume", kept);
  EXPECT_EQ(run(job("unipc", "cut.mp4", {"--resume"})).code, 0);
  write("cut.mp4.resume", kept);
  done = run(job("unipc", "cut.mp4"));
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("--resume"));
  EXPECT_FALSE(fs::exists(path("cut.mp4.resume")));
}

// Changes the settings in a state file of this run, adjusting the safetensors header and its length.
void change_settings(const std::string& file, const std::function<void(json&)>& change) {
  const std::string bytes = read_text(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  json header = json::parse(bytes.substr(8, length));
  json settings = json::parse(header["__metadata__"]["settings"].get<std::string>());
  change(settings);
  header["__metadata__"]["settings"] = settings.dump();
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t now = text.size();
  std::ofstream(file, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&now), 8) << text << bytes.substr(8 + length);
}

// A run that was made on a GPU is resumed or repeated on a GPU; elsewhere only if the user asks for that.
TEST_F(Resume, TheDeviceIsKeptAsAWish) {
  if (!kill_at(job("unipc", "cut.mp4"), "denoise", 12)) GTEST_SKIP() << "it was over before";
  change_settings(path("cut.mp4.resume"), [](json& s) {
    EXPECT_EQ(s.at("device"), "cpu");
    s["device"] = "cuda";
  });
  const std::vector<std::string> words{"generate", "--from", "cut.mp4.resume", "--resume", "--json"};
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // hides the GPU of a machine that has one
  const Done refused = run(words);
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("cut.mp4.resume"), HasSubstr("GPU"), HasSubstr("--device cpu")));
  EXPECT_FALSE(fs::exists(path("cut.mp4")));
  std::vector<std::string> asked = words;
  asked.insert(asked.end(), {"--device", "cpu"});
  const Done done = run(asked);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_GE(resumed_step(done), 12);
  // The same holds for the settings beside a finished video.
  json settings = json::parse(read_text(path("cut.json")));
  EXPECT_EQ(settings.at("device"), "cpu");
  settings["device"] = "cuda";
  std::ofstream(path("cut.json")) << settings;
  EXPECT_EQ(run({"generate", "--from", "cut.json", "-o", "again.mp4"}).code, 5);
  EXPECT_EQ(run({"generate", "--from", "cut.json", "-o", "again.mp4", "--device", "cpu"}).code, 0);
  settings["device"] = "abacus";
  std::ofstream(path("cut.json")) << settings;
  EXPECT_EQ(run({"generate", "--from", "cut.json", "-o", "again.mp4"}).code, 4);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(Resume, NothingToResumeAndAlreadyComplete) {
  const Done first = run(generate({"a cat", "--resume", "-o", "a.gif"}));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("starting from the beginning"));
  const Done again = run(generate({"a cat", "--resume", "-o", "a.gif"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("complete already"));
  const Done other = run(generate({"a dog", "--resume", "-o", "a.gif"}));
  EXPECT_THAT(other.out, HasSubstr("starting from the beginning"));
  const Done negative = run(generate({"a cat", "--state-every", "-1"}));
  EXPECT_EQ(negative.code, 2);
  EXPECT_THAT(negative.err, AllOf(HasSubstr("--state-every"), HasSubstr("-1")));
}

class ImageOption : public CliTest {
 protected:
  std::vector<std::string> ti2v(std::vector<std::string> more) const {
    std::vector<std::string> words{"generate", "a red cat", "-m",       golden("image_pipeline/ti2v"),
                                   "--size",   "96x64",     "--frames", "5",
                                   "--steps",  "2",         "-t",       "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ImageOption, TheRunRecordsThePictureAndChecksIt) {
  fs::copy(golden("image_pipeline/first.png"), path("photo.png"));
  const Done done = run(ti2v({"--image", "photo.png", "-o", "a.mp4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, Not(HasSubstr("warning")));
  const json settings = json::parse(read_text(path("a.json")));
  EXPECT_EQ(settings["image"], "photo.png");
  EXPECT_EQ(settings["image_fit"], "stretch");
  EXPECT_EQ(settings["image_sha256"], "077ee4c599c7f99bc4be6acf5d7b9b2331fcb513b5f8fecebe6a9dc0872df487");
  EXPECT_EQ(run({"generate", "--from", "a.mp4", "-o", "b.mp4", "-t", "1"}).code, 0);
  EXPECT_EQ(read_text(path("a.mp4")), read_text(path("b.mp4")));
  // Settings and picture that were moved together are found.
  fs::create_directory(path("moved"));
  fs::rename(path("photo.png"), path("moved/photo.png")), fs::rename(path("a.json"), path("moved/a.json"));
  EXPECT_EQ(run({"generate", "--from", "moved/a.json", "-o", "c/"}).code, 0);
  // Another picture under the old name is refused.
  fs::copy(golden("image_pipeline/last.png"), path("moved/photo.png"), fs::copy_options::overwrite_existing);
  const Done other = run({"generate", "--from", "moved/a.json", "-o", "d.mp4"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("--image"), HasSubstr("photo.png"), HasSubstr("077ee4c599c7")));
  const Done taken = run({"generate", "--from", "moved/a.json", "--image", "moved/photo.png", "-o", "d.mp4"});
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("--image-fit crop")) << "40x61 on 96x64 is stretched";
}

TEST_F(ImageOption, BadInputsNameOptionValueAndRemedy) {
  Done done = run(ti2v({"--image", "gone.png", "-o", "x.mp4"}));
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image"), HasSubstr("gone.png")));
  write("broken.png", read_text(golden("image_pipeline/first.png")).substr(0, 500));
  done = run(ti2v({"--image", "broken.png", "-o", "x.mp4"}));
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image"), HasSubstr("broken.png")));
  write("text.png", "this is no picture");
  done = run(ti2v({"--image", "text.png", "-o", "x.mp4"}));
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image"), HasSubstr("text.png"), HasSubstr("PNG")));
  done = run(ti2v({"--image", ".", "-o", "x.mp4"}));
  EXPECT_EQ(done.code, 3);
  const std::string first = golden("image_pipeline/first.png");
  done = run(generate({"a cat", "--image", first, "-o", "x.mp4"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image"), HasSubstr("text-to-video model")));
  done = run(ti2v({"--image", first, "--image-embeds", first, "-o", "x.mp4"}));
  EXPECT_NE(done.code, 0);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image-embeds"), HasSubstr("safetensors")));
  const std::string embeds = golden("image_pipeline/embeds_pair.safetensors");
  done = run({"generate", "a cat", "-m", golden("image_pipeline/i2v"), "--size", "48x32", "--image", first,
              "--image-embeds", embeds});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image-embeds"), HasSubstr("[257, 12]"), HasSubstr("[2, 7, 12]")));
  EXPECT_THAT(files(), testing::ElementsAre("broken.png", "text.png"));
}

// The engine prepares the vision model's pictures from the files, before they are fitted to the video.
TEST_F(ImageOption, ThePictureAloneSufficesForAModelWithAnImageEncoder) {
  const std::vector<std::string> common{"generate",    "the red cat moves",
                                        "--size",      "32x48",
                                        "--frames",    "5",
                                        "--steps",     "2",
                                        "-t",          "2",
                                        "--image",     golden("image_pipeline/first.png"),
                                        "--image-fit", "crop"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = common;
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const std::string last = golden("image_pipeline/last.png"), pair = golden("image_pipeline/flf2v_clip");
  Done done = with({"-m", pair, "--last-image", last, "-o", "a.mp4", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("\"image-embeds\""));
  EXPECT_EQ(json::parse(read_text(path("a.json")))["clip_preparation"], "processor");
  done = with({"-m", golden("image_pipeline/i2v"), "--image-encoder", pair, "-o", "b.mp4"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(json::parse(read_text(path("b.json")))["image_encoder"], pair);
  EXPECT_EQ(run({"generate", "--from", "b.mp4", "-o", "c.mp4", "-t", "1"}).code, 0);
  EXPECT_EQ(read_text(path("b.mp4")), read_text(path("c.mp4")));
  EXPECT_EQ(run({"generate", "--from", "b.mp4", "-o", "d.mp4", "--clip-preparation", "original"}).code, 0);
  EXPECT_NE(read_text(path("b.mp4")), read_text(path("d.mp4")));
  done = with({"-m", golden("image_pipeline/i2v"), "-o", "x.mp4"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--image-encoder"), HasSubstr("--image-embeds")));
  const Done plan = with({"-m", pair, "--last-image", last, "--plan", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const json stages = json::parse(plan.out)["stages"];
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(stages[1]["stage"], "image-embeds");
  const Done info = run({"info", pair, "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(json::parse(info.out)["components"][1]["name"], "image encoder");
  const Done file = run({"info", pair + "/image_encoder/model.safetensors"});
  EXPECT_THAT(file.out + file.err, HasSubstr("--image-encoder"));
}

TEST_F(ImageOption, PlanAndInfoKnowTheImageStage) {
  const std::string first = golden("image_pipeline/first.png");
  const Done plan = run(ti2v({"--image", first, "--plan", "--json"}));
  ASSERT_EQ(plan.code, 0) << plan.err;
  const json stages = json::parse(plan.out)["stages"];
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[1]["stage"], "image");
  for (const char* model : {"i2v", "flf2v", "i2v22", "ti2v"}) {
    const Done info = run({"info", golden("image_pipeline/" + std::string(model)), "--json"});
    ASSERT_EQ(info.code, 0) << info.err;
    EXPECT_GT(json::parse(info.out)["peak_bytes"].get<uint64_t>(), 0u) << model;
  }
}

}  // namespace
}  // namespace tachy::test
