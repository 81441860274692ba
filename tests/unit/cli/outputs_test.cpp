// Tests which files a run writes and which it leaves alone: names made from prompts, two runs of one output,
// and settings, states, previews and profiles beside other people's files.
#include <nlohmann/json.hpp>

#include "base/output_lock.h"
#include "binary.h"
#include "media/metadata.h"
#include "media/video/video_writer.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Outputs : public CliTest {
 protected:
  json settings(const std::string& name) const { return json::parse(read_text(path(name)), nullptr, false); }

  // Starts a run with its own files for output and errors, because several of them run at once.
  pid_t start_at_once(const std::vector<std::string>& args, const std::string& name) {
    const fs::path own = folder_;
    folder_ = own.string() + "." + name;
    fs::create_directory_symlink(own, folder_);
    const pid_t child = start(args);
    return folder_ = own, child;
  }
  Done finish_at_once(pid_t child, const std::string& name) {
    const fs::path own = folder_;
    folder_ = own.string() + "." + name;
    const Done done = finish(child);
    fs::remove(folder_);
    return folder_ = own, done;
  }

  // Returns the arguments of a run that denoises for minutes.
  std::vector<std::string> long_run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"a cat", "--size", "96x96", "--frames", "33", "--steps", "1000",
                               "--state-every", "0", "--json"});
    return generate(more);
  }
  bool wait_for_file(const std::string& name) const {
    for (int i = 0; i < 60000 && !fs::exists(path(name)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return fs::exists(path(name));
  }
  // Leaves the state of an interrupted run, and nothing under the run's own name.
  void interrupt(const std::vector<std::string>& args, const std::string& state) {
    const pid_t child = start(args);
    EXPECT_TRUE(wait_for_file(state));
    kill(child, SIGKILL);
    finish(child);
  }
};

TEST_F(Outputs, NamesKeepEveryScriptAndNoVideoIsLost) {
  write("p.txt", "红色的猫\n黑色的狗\n白色的鸟\nقطة حمراء\nलाल गेंद\n🐱🚀\n");
  ASSERT_EQ(run(generate({"--prompt-file", "p.txt", "-q"})).code, 0);
  for (const char* name : {"红色的猫-0", "黑色的狗-0", "白色的鸟-0", "قطة-حمراء-0", "लाल-गेंद-0", "🐱🚀-0"}) {
    EXPECT_TRUE(fs::exists(path(std::string(name) + ".mp4"))) << name;
    EXPECT_TRUE(settings(std::string(name) + ".json").contains("seed")) << name;
  }
  EXPECT_EQ(files().size(), 13u);
}

TEST_F(Outputs, TheNextFreeNameIsTaken) {
  const std::string long_start(130, 'a');
  write("p.txt", long_start + " one\n" + long_start + " two\n!!!\n???\n");
  ASSERT_EQ(run(generate({"--prompt-file", "p.txt", "-q"})).code, 0);
  const std::string stem = std::string(120, 'a') + "-0";
  EXPECT_EQ(settings(stem + ".json")["prompt"], long_start + " one");
  EXPECT_EQ(settings(stem + "_2.json")["prompt"], long_start + " two") << "within a job";
  EXPECT_EQ(settings("video-0_2.json")["prompt"], "???");
  const std::string first = read_text(path("video-0.mp4"));
  const Done again = run(generate({"!!!", "--steps", "2"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("video-0_3.mp4")) << "a second run";
  EXPECT_EQ(read_text(path("video-0.mp4")), first);
  EXPECT_EQ(files().size(), 11u);
}

TEST_F(Outputs, ProcessesAtTheSameTimeTakeNamesOfTheirOwn) {
  std::vector<pid_t> children;
  for (const char* n : {"1", "2", "3"})
    children.push_back(start_at_once(generate({"a cat", "-t", "1", "-q", "--steps", n}), n));
  for (int i = 0; i < 3; ++i) {
    const Done done = finish_at_once(children[static_cast<size_t>(i)], std::to_string(i + 1));
    EXPECT_EQ(done.code, 0) << done.err;
  }
  EXPECT_THAT(files(), ElementsAre("a-cat-0.json", "a-cat-0.mp4", "a-cat-0_2.json", "a-cat-0_2.mp4",
                                   "a-cat-0_3.json", "a-cat-0_3.mp4"));
  std::set<int> steps;
  for (const char* name : {"a-cat-0", "a-cat-0_2", "a-cat-0_3"}) {
    steps.insert(settings(std::string(name) + ".json")["num_inference_steps"].get<int>());
    json beside = settings(std::string(name) + ".json");
    beside.erase("output");
    EXPECT_EQ(json::parse(read_comment(path(std::string(name) + ".mp4"))), beside) << "its own settings";
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
}

TEST_F(Outputs, ResumeWithoutANameFindsItsState) {
  const auto job = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"a red cat", "--size", "48x48", "--frames", "9", "--state-every", "0",
                               "--json", "--sampler", "euler"});
    return generate(more);
  };
  ASSERT_EQ(run(job({"--steps", "60", "-o", "whole.mp4"})).code, 0);
  ASSERT_EQ(run(job({"--steps", "2"})).code, 0);                  // makes a-red-cat-0.mp4
  interrupt(job({"--steps", "50"}), "a-red-cat-0_2.mp4.resume");  // belongs to another job
  interrupt(job({"--steps", "60"}), "a-red-cat-0_3.mp4.resume");  // belongs to this job
  const Done rest = run(job({"--steps", "60", "--resume"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("\"output\":\"a-red-cat-0_3.mp4\""));
  EXPECT_THAT(rest.err, HasSubstr("a-red-cat-0_2.mp4.resume")) << "what was passed over";
  EXPECT_EQ(read_text(path("a-red-cat-0_3.mp4")), read_text(path("whole.mp4")));
  EXPECT_TRUE(fs::exists(path("a-red-cat-0_2.mp4.resume")));
  EXPECT_FALSE(fs::exists(path("a-red-cat-0_3.mp4.resume")));
  // The first video is already complete; for the second one nothing exists, so it gets an unused name.
  EXPECT_THAT(run(job({"--steps", "60", "--resume"})).out,
              AllOf(HasSubstr("\"complete\""), HasSubstr("a-red-cat-0_3.mp4")));
  EXPECT_THAT(run(job({"--steps", "3", "--resume"})).out, HasSubstr("\"output\":\"a-red-cat-0_4.mp4\""));
}

TEST_F(Outputs, AnInterruptedRunsNameIsNotTaken) {
  interrupt(long_run({}), "a-cat-0.mp4.resume");
  const std::string state = read_text(path("a-cat-0.mp4.resume"));
  const Done done = run(generate({"a cat"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("a-cat-0_2.mp4"));
  EXPECT_THAT(done.err, AllOf(HasSubstr("a-cat-0.mp4.resume"), HasSubstr("--resume")));
  EXPECT_EQ(read_text(path("a-cat-0.mp4.resume")), state);
}

TEST_F(Outputs, ASecondRunOfAnOutputIsRefused) {
  write("new.mp4", "an old video");
  fs::create_directory_symlink(".", path("link"));
  const pid_t child = start_at_once(long_run({"-o", "new.mp4"}), "1");
  ASSERT_TRUE(wait_for_file("new.mp4.resume"));
  const std::string pid = fmt::format("({})", child);
  for (const char* name : {"new.mp4", "./link/./new.mp4", "link/new.mp4"}) {
    auto args = generate({"a cat", "-o", name});
    if (name != std::string("new.mp4")) args.push_back("--resume");
    const Done second = run(args);
    EXPECT_EQ(second.code, 6) << second.err;
    EXPECT_THAT(second.err, AllOf(HasSubstr("another process " + pid), HasSubstr("new.mp4")));
    EXPECT_THAT(second.out, IsEmpty());
  }
  EXPECT_TRUE(fs::exists(path("new.mp4.resume"))) << "the living run's";
  kill(child, SIGKILL);
  EXPECT_EQ(finish_at_once(child, "1").code, 1000 + SIGKILL);
  EXPECT_EQ(read_text(path("new.mp4")), "an old video");
  const Done next = run(generate({"a cat", "-o", "new.mp4", "-q"}));
  EXPECT_EQ(next.code, 0) << next.err << "what a killed run leaves locks nothing";
  EXPECT_THAT(files(), ElementsAre("link", "new.json", "new.mp4"));
}

TEST_F(Outputs, FoldersAndPatternsOfTheSamePicturesAreOneOutput) {
  const pid_t child = start_at_once(long_run({"-o", "frames/"}), "1");
  ASSERT_TRUE(wait_for_file("frames.resume"));
  for (const char* name : {"frames", "frames/frame_%04d.png"}) {
    const Done second = run(generate({"a cat", "-o", name}));
    EXPECT_EQ(second.code, 6) << name << second.err;
    EXPECT_THAT(second.err, HasSubstr(fmt::format("({})", child)));
  }
  kill(child, SIGINT);
  EXPECT_EQ(finish_at_once(child, "1").code, 130);
  EXPECT_THAT(files(), ElementsAre("frames.resume")) << "no folder, no lock";
}

// Names of files are bytes: on old disks and in archives some are in Latin-1 or other encodings.
TEST_F(Outputs, NamesThatAreNoUtf8) {
  const std::string name = "caf\xe9";
  fs::copy(golden("image_pipeline/first.png"), path(name + ".png"));
  const std::vector<std::string> args{"generate",
                                      "a red cat",
                                      "-m",
                                      golden("image_pipeline/ti2v"),
                                      "--size",
                                      "96x64",
                                      "--frames",
                                      "5",
                                      "--steps",
                                      "60",
                                      "-t",
                                      "2",
                                      "--image",
                                      name + ".png",
                                      "--state-every",
                                      "0",
                                      "--json",
                                      "-o",
                                      name + ".mp4"};
  interrupt(args, name + ".mp4.resume");
  const Done rest =
      run({"generate", "--from", name + ".mp4.resume", "--resume", "--image", name + ".png", "--json"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(fs::exists(path(name + ".mp4")));
  auto again = args;
  again.push_back("--resume");
  EXPECT_THAT(run(again).out, HasSubstr("\"complete\""));
}

// Every command that writes a file for a while locks it as a run does.
TEST_F(Outputs, OtherCommandsLockTheirOutputsToo) {
  const std::string sprites = std::string(TACHY_SOURCE_DIR) + "/models/sprites";
  const RgbFrame picture(16, 16);
  write_png(path("in.png"), picture.view());
  ASSERT_EQ(run({"vae", "encode", "in.png", "-o", "in.safetensors", "-m", sprites, "-q"}).code, 0);
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"a.safetensors", {"vae", "encode", "in.png", "-m", sprites, "-o", "a.safetensors"}},
      {"a.png", {"vae", "decode", "in.safetensors", "-m", sprites, "-o", "a.png"}},
      {"a.gguf", {"convert", sprites, "a.gguf", "--to", "gguf:Q8_0"}},
      {"folder", {"convert", model_path(), "folder", "--to", "diffusers"}},
      {"n.safetensors", {"stage", "noise", "--shape", "4", "--seed", "1", "--out", "n.safetensors"}},
      {"t.json", generate({"x", "-o", "t.mp4", "--profile", "t.json"})},
      {"p.png", generate({"x", "-o", "t.mp4", "--preview", "p.png"})},
      {"l.safetensors", generate({"x", "-o", "t.mp4", "--save-latents", "l.safetensors"})},
      {"b.json",
       {"bench", "--op", "rope", "--cases", "tiny", "--ops-only", "--seconds", "0.01", "-o", "b.json"}}};
  const std::set<std::string> before = files();
  for (const auto& [output, args] : commands) {
    SCOPED_TRACE(output);
    const OutputLock lock(path(output));
    const Done refused = run(args);
    EXPECT_EQ(refused.code, 6) << refused.err;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(fmt::format("another process ({})", getpid())), HasSubstr(output)));
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Outputs, SettingsOfSomebodyElseStay) {
  write("scene.json", "{\"scene\": 1}");
  Done done = run(generate({"a cat", "-o", "scene.mp4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_text(path("scene.json")), "{\"scene\": 1}");
  EXPECT_EQ(settings("scene.mp4.json")["prompt"], "a cat");
  EXPECT_THAT(done.err, HasSubstr("scene.mp4.json")) << "which is said";
  EXPECT_EQ(run({"generate", "--from", "scene.mp4.json", "-o", "again.gif", "-q"}).code, 0);
  EXPECT_EQ(run(generate({"a dog", "-o", "scene.mp4", "-q"})).code, 0);
  EXPECT_EQ(settings("scene.mp4.json")["prompt"], "a dog") << "its own are replaced";
  EXPECT_THAT(run(generate({"a dog", "-o", "scene.mp4", "--resume"})).out, HasSubstr("complete already"));
  // If neither name is available, that is reported before the work, not after it.
  write("scene.mp4.json", "[]");
  const std::string video = read_text(path("scene.mp4"));
  done = run(generate({"a cat", "-o", "scene.mp4", "--json"}));
  EXPECT_EQ(done.code, 6);
  EXPECT_THAT(done.err, AllOf(HasSubstr("scene.json"), HasSubstr("scene.mp4.json")));
  EXPECT_THAT(done.out, Not(HasSubstr("denoise")));
  EXPECT_EQ(read_text(path("scene.mp4")), video);
  EXPECT_EQ(read_text(path("scene.mp4.json")), "[]");
  // The same holds in a folder.
  fs::create_directory(path("frames"));
  write("frames/settings.json", "not JSON");
  EXPECT_EQ(run(generate({"a cat", "-o", "frames", "-q"})).code, 0);
  EXPECT_EQ(read_text(path("frames/settings.json")), "not JSON");
  EXPECT_EQ(settings("frames/frames.json")["prompt"], "a cat");
}

TEST_F(Outputs, OutputsThatShareAStemKeepTheirSettings) {
  for (const auto& [name, prompt] : {std::pair("scene.mp4", "one"),
                                     {"scene.webm", "two"},
                                     {"scene.gif", "three"},
                                     {"scene.webm", "four"},
                                     {"scene.mp4", "five"}})
    ASSERT_EQ(run(generate({prompt, "-o", name, "-q"})).code, 0);
  EXPECT_EQ(settings("scene.json")["prompt"], "five");
  EXPECT_EQ(settings("scene.webm.json")["prompt"], "four");
  EXPECT_EQ(settings("scene.gif.json")["prompt"], "three");
  EXPECT_EQ(files().size(), 6u);
  // Files that were renamed together still belong together, as do those of a version that did not note the
  // output's name.
  fs::rename(path("scene.mp4"), path("new.mp4")), fs::rename(path("scene.json"), path("new.json"));
  ASSERT_EQ(run(generate({"six", "-o", "new.mp4", "-q"})).code, 0);
  EXPECT_EQ(settings("new.json")["prompt"], "six");
  json old = settings("new.json");
  old.erase("output");
  write("new.json", old.dump());
  ASSERT_EQ(run(generate({"seven", "-o", "new.gif", "-q"})).code, 0);
  EXPECT_EQ(settings("new.json")["prompt"], "six") << "the mp4's";
  ASSERT_EQ(run(generate({"eight", "-o", "new.mp4", "-q"})).code, 0);
  EXPECT_EQ(settings("new.json")["prompt"], "eight");
}

TEST_F(Outputs, FilesInTheWayStayAndTheRunIsRefused) {
  const RgbFrame picture(16, 16);
  write_png(path("photo.png"), picture.view());
  write("a.mp4.resume", "my notes");
  fs::create_directory(path("b.mp4.windows"));
  write("b.mp4.windows/0001.frames", "mine");
  write("trace.json", "{\"traceEvents\": []}");
  write("model.safetensors", read_text(model_path() + "/vae/diffusion_pytorch_model.safetensors"));
  const std::set<std::string> before = files();
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"a.mp4.resume", {"-o", "a.mp4"}},
      {"b.mp4.windows/0001.frames", {"-o", "b.mp4"}},
      {"photo.png", {"-o", "c.mp4", "--preview", "photo.png"}},
      {"trace.json", {"-o", "c.mp4", "--profile", "trace.json"}},
      {"model.safetensors", {"-o", "c.mp4", "--save-latents", "model.safetensors"}}};
  for (const auto& [file, more] : cases) {
    SCOPED_TRACE(file);
    const std::string content = read_text(path(file));
    auto args = generate({"a cat", "--json"});
    args.insert(args.end(), more.begin(), more.end());
    const Done done = run(args);
    EXPECT_EQ(done.code, 6) << done.err;
    EXPECT_THAT(done.err, HasSubstr(file));
    EXPECT_THAT(done.out, Not(HasSubstr("denoise")));
    EXPECT_EQ(read_text(path(file)), content);
  }
  EXPECT_EQ(files(), before);
  // A file that one of our runs has written is replaced.
  const auto with = generate({"a cat", "-o", "c.mp4", "--preview", "p.png", "--profile", "t.json",
                              "--save-latents", "l.safetensors", "-q"});
  EXPECT_EQ(run(with).code, 0);
  const Done again = run(with);
  EXPECT_EQ(again.code, 0) << again.err;
  // Nothing is written or removed beside standard output.
  write("-.resume", "mine");
  EXPECT_EQ(run(generate({"a cat", "-o", "-", "-q"})).code, 0);
  EXPECT_EQ(read_text(path("-.resume")), "mine");
  EXPECT_EQ(run(generate({"a cat", "-o", "p.png", "--preview", "p.png", "--frames", "1"})).code, 2);
}

}  // namespace
}  // namespace tachy::test
