// Tests a talking photo of several windows that is interrupted, as a user sees it: kills at any moment, full
// disks, folders that disappear, damaged files of finished windows. A resumed run ends with the file of an
// uninterrupted one.
#include <sys/mount.h>

#include <nlohmann/json.hpp>
#include <random>

#include "../../../apps/cli/progress.h"
#include "../pipelines/talk_weights.h"
#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kFrames = 28;  // windows begin at 0, 4, 8, 12, 16 and 20; the last one is cut off

class TalkResume : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    const PartPaths parts = TalkWeights(folder_).parts;
    parts_ = {"--infinitetalk", parts.infinitetalk.string(), "--audio-encoder", parts.audio_encoder.string()};
    write_voice(path("voice.wav"), kFrames);
  }
  std::vector<std::string> job(const std::string& output, std::vector<std::string> more = {}) const {
    const std::string given = golden("image_pipeline/");
    std::vector<std::string> words{"talk",
                                   "the red cat moves",
                                   "-m",
                                   given + "i2v",
                                   "--photo",
                                   given + "first.png",
                                   "--image-embeds",
                                   given + "embeds.safetensors",
                                   "--audio",
                                   "voice.wav",
                                   "--size",
                                   "48x32",
                                   "--window-frames",
                                   "9",
                                   "--motion-frames",
                                   "5",
                                   "--steps",
                                   "3",
                                   "--sampler",
                                   "lcm",
                                   "--image-fit",
                                   "crop",
                                   "--json",
                                   "--state-every",
                                   every_,
                                   "-t",
                                   "2",
                                   "-o",
                                   output};
    words.insert(words.end(), parts_.begin(), parts_.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static std::vector<json> events(const std::string& out, const std::string& kind) {
    std::vector<json> found;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line, nullptr, false);
      if (!j.is_discarded() && j.value("event", "") == kind) found.push_back(j);
    }
    return found;
  }
  // Waits until `stage` of `window`, counted from 1, has reported `done`.
  bool wait_for(const std::string& stage, int window, int done) {
    for (int i = 0; i < 30000; ++i) {
      for (const json& j : events(read_text(folder_.string() + ".out"), "progress"))
        if (j.at("stage") == stage && j.value("window", 0) >= window && j.at("done").get<int>() >= done)
          return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << stage << " of window " << window << " did not get to " << done;
    return false;
  }
  bool signal_at(const std::vector<std::string>& args, int signal, const std::string& stage, int window,
                 int done, Done* ended = nullptr) {
    const pid_t child = start(args);
    wait_for(stage, window, done);
    kill(child, signal);
    const Done it = finish(child);
    if (ended) *ended = it;
    return it.code != 0;
  }
  // Runs the command with a limit on the size that any of its files may reach.
  Done run_limited(const std::vector<std::string>& args, rlim_t bytes) {
    struct rlimit before {};
    getrlimit(RLIMIT_FSIZE, &before);
    const struct rlimit lowered { bytes, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &lowered);
    const pid_t child = start(args);
    setrlimit(RLIMIT_FSIZE, &before);
    return finish(child);
  }
  std::set<std::string> inside(const std::string& name) const {
    std::set<std::string> out;
    std::error_code ec;
    for (const auto& item : fs::directory_iterator(path(name), ec))
      out.insert(item.path().filename().string());
    return out;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    if (!a.ends_with('/')) {
      EXPECT_EQ(read_text(path(a)), read_text(path(b)));
      return;
    }
    EXPECT_EQ(inside(a), inside(b));
    for (const std::string& name : inside(a))
      EXPECT_EQ(read_text(path(a) / name), read_text(path(b) / name)) << name;
  }
  void expect_nothing_kept(const std::string& name) const {
    EXPECT_FALSE(fs::exists(path(name + ".resume")));
    EXPECT_FALSE(fs::exists(path(name + ".windows")));
  }

  std::vector<std::string> parts_;
  std::string every_ = "0";  // seconds between two states; with 0 a run waits until each one is written
};

TEST_F(TalkResume, KilledInEachWindowItGoesOnBitForBit) {
  for (const char* recipe : {"infinitetalk", "wrapper"}) {
    ASSERT_EQ(run(job("whole.mp4", {"--recipe", recipe})).code, 0);
    expect_nothing_kept("whole.mp4");
    int killed = 0;
    const auto args = job("cut.mp4", {"--recipe", recipe, "--resume"});
    for (const auto& [stage, window, done] :
         std::vector<std::tuple<const char*, int, int>>{{"denoise", 1, 2},
                                                        {"decode", 1, 4},
                                                        {"denoise", 2, 4},
                                                        {"motion", 2, 1},
                                                        {"denoise", 4, 11},
                                                        {"decode", 6, 26}}) {
      killed += signal_at(args, SIGKILL, stage, window, done);
      if (fs::exists(path("cut.mp4"))) break;
      EXPECT_TRUE(fs::exists(path("cut.mp4.resume")));
    }
    EXPECT_GE(killed, 4) << "the kills came too late to say anything";
    const Done rest = run(args);
    ASSERT_EQ(rest.code, 0) << rest.err;
    expect_same("cut.mp4", "whole.mp4");
    expect_nothing_kept("cut.mp4");
    fs::remove(path("cut.mp4")), fs::remove(path("cut.json"));
  }
}

// In each format the file is that of an uninterrupted run: it is encoded again from its first frame.
TEST_F(TalkResume, EveryFormatAndTheStateFileAlone) {
  for (const std::string name : {"cut.webm", "cut.gif", "cut/"}) {
    const std::string whole = "whole" + name.substr(3), bare = name == "cut/" ? "cut" : name;
    ASSERT_EQ(run(job(whole)).code, 0);
    ASSERT_TRUE(signal_at(job(name), SIGKILL, "denoise", 3, 8)) << name;
    EXPECT_GE(inside(bare + ".windows").size(), 2u);
    const Done rest = run({"talk", "--from", bare + ".resume", "--resume", "--json", "-t", "3"});
    ASSERT_EQ(rest.code, 0) << rest.err;
    const json from = events(rest.out, "resume").at(0);
    EXPECT_GE(from.at("window").get<int>(), 3) << from;
    EXPECT_EQ(from.at("windows"), 6);
    for (const json& p : events(rest.out, "progress")) {
      EXPECT_EQ(p.at("windows"), 6);
      if (p.at("stage") == "denoise") {
        EXPECT_GE(p.at("done").get<int>(), 6);
        EXPECT_EQ(p.at("total"), 18);
      }
    }
    expect_same(whole, name);
    expect_nothing_kept(bare);
  }
}

TEST_F(TalkResume, InterruptedItSaysHowToGoOn) {
  Done done;
  ASSERT_TRUE(signal_at(job("cut.mp4"), SIGINT, "denoise", 3, 7, &done));
  EXPECT_EQ(done.code, 130);
  EXPECT_THAT(done.err, AllOf(HasSubstr("cancelled"), HasSubstr("window 3 of 6"), HasSubstr("--resume")));
  EXPECT_EQ(inside("cut.mp4.windows"), (std::set<std::string>{"0001.frames", "0002.frames"}));
  EXPECT_TRUE(fs::exists(path("cut.mp4.resume")));
  for (const std::string& name : files()) EXPECT_FALSE(name.ends_with(".part")) << name;
  // If the request differs, the run says so and removes nothing; a run that begins anew says so, and cleans
  // up.
  done = run(job("cut.mp4", {"--resume", "--seed", "8"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("seed"));
  fs::rename(path("voice.wav"), path("kept.wav"));
  write_voice(path("voice.wav"), kFrames - 1);
  done = run({"talk", "--from", "cut.mp4.resume", "--resume"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("voice.wav"), HasSubstr("SHA-256")));
  fs::rename(path("kept.wav"), path("voice.wav"));
  EXPECT_EQ(inside("cut.mp4.windows").size(), 2u);
  done = run(job("cut.mp4", {"--seed", "8"}));
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("--resume"));
  expect_nothing_kept("cut.mp4");
}

// Usually a thread writes the states and completes the windows while the run goes on.
TEST_F(TalkResume, StatesThatAreWrittenAsideAreWhole) {
  every_ = "0.0001";
  ASSERT_EQ(run(job("whole.mp4")).code, 0);
  expect_nothing_kept("whole.mp4");
  int killed = 0;
  for (const auto& [signal, window, done] :
       std::vector<std::tuple<int, int, int>>{{SIGKILL, 2, 5}, {SIGINT, 3, 8}, {SIGKILL, 5, 13}}) {
    Done ended;
    killed += signal_at(job("cut.mp4", {"--resume"}), signal, "denoise", window, done, &ended);
    if (fs::exists(path("cut.mp4"))) break;
    EXPECT_TRUE(fs::exists(path("cut.mp4.resume")));
    EXPECT_GE(inside("cut.mp4.windows").size(), static_cast<size_t>(window - 1));
    if (signal != SIGINT) continue;
    EXPECT_EQ(ended.code, 130);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("of 6"), HasSubstr("--resume")));
  }
  EXPECT_GE(killed, 2) << "the signals came too late to say anything";
  const Done rest = run(job("cut.mp4", {"--resume"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_same("cut.mp4", "whole.mp4");
  expect_nothing_kept("cut.mp4");
}

TEST_F(TalkResume, KilledAtRandomMoments) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(job("whole.mp4")).code, 0);
  const auto whole =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int killed = 0;
  for (int i = 0; i < 12 || (killed < 4 && i < 48);
       ++i) {  // the machine may have been held up when it made `whole`
    every_ = i % 2 == 0 ? "0" : "0.0001";
    // Some of the runs begin anew over what others left.
    const pid_t child =
        start(job("new.mp4", i % 4 == 3 ? std::vector<std::string>{} : std::vector<std::string>{"--resume"}));
    std::this_thread::sleep_for(whole * (random() % 1000) / 1500);
    kill(child, SIGKILL);
    const Done done = finish(child);
    EXPECT_TRUE(done.code == 1000 + SIGKILL || done.code == 0) << i << ": " << done.code << done.err;
    killed += done.code != 0;
    if (!fs::exists(path("new.json"))) continue;
    expect_same("new.mp4", "whole.mp4");
    fs::remove(path("new.mp4")), fs::remove(path("new.json"));
  }
  EXPECT_GE(killed, 4) << "the kills came too late to say anything";
  const Done rest = run(job("new.mp4", {"--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  expect_same("new.mp4", "whole.mp4");
  expect_nothing_kept("new.mp4");
  for (const std::string& name : files()) EXPECT_FALSE(name.ends_with(".part")) << name;
}

TEST_F(TalkResume, DamagedWindowsAreNamed) {
  ASSERT_EQ(run(job("whole.mp4")).code, 0);
  ASSERT_TRUE(signal_at(job("cut.mp4"), SIGKILL, "denoise", 4, 10));
  const std::string name = "cut.mp4.windows/0002.frames", kept = read_text(path(name)),
                    state = read_text(path("cut.mp4.resume"));
  const auto refused = [&](int code, const std::string& what) {
    const Done done = run(job("cut.mp4", {"--resume"}));
    EXPECT_EQ(done.code, code) << what << done.err;
    EXPECT_THAT(done.err, HasSubstr(name)) << what;
    EXPECT_FALSE(fs::exists(path("cut.mp4"))) << what;
    EXPECT_EQ(read_text(path("cut.mp4.resume")), state) << what;
    write(name, kept);
  };
  fs::remove(path(name));
  refused(3, "gone");
  write(name, kept.substr(0, kept.size() - 1));
  refused(4, "cut");
  std::string other = kept;
  other[kept.size() / 2] ^= 1;
  write(name, other);
  refused(4, "a bit");
  fs::copy_file(path("cut.mp4.windows/0003.frames"), path(name), fs::copy_options::overwrite_existing);
  refused(4, "another window's");
  const Done rest = run(job("cut.mp4", {"--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  expect_same("cut.mp4", "whole.mp4");
}

// Tests a state whose content has changed.
TEST_F(TalkResume, DamagedStatesAreNamed) {
  ASSERT_TRUE(signal_at(job("cut.mp4"), SIGKILL, "denoise", 4, 10));
  const std::string state = read_text(path("cut.mp4.resume"));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\\\"frames\\\":9", "\\\"frames\\\":8"},
                                                        {"\\\"sha256\\\"", "\\\"sha257\\\""},
                                                        {"window_files", "window_filed"},
                                                        {"\"windows\":\"6", "\"windows\":\"7"},
                                                        {"\"windows\":\"6", "\"windows\":\"x"}}) {
    std::string other = state;
    const size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write("cut.mp4.resume", other.replace(at, from.size(), to));
    const Done done = run(job("cut.mp4", {"--resume"}));
    EXPECT_EQ(done.code, 4) << to << done.err;
    EXPECT_FALSE(fs::exists(path("cut.mp4")));
  }
}

// A file system in memory that has little room; only root may make one.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& at) : at_(at) {
    fs::create_directories(at_);
    mounted_ = mount("none", at_.c_str(), "tmpfs", 0, "size=128k") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  void grow() { mount("none", at_.c_str(), "tmpfs", MS_REMOUNT, "size=8m"); }

 private:
  fs::path at_;
  bool mounted_ = false;
};

TEST_F(TalkResume, DiskFullInALaterWindow) {
  SmallDisk disk(path("disk"));
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system takes root; FileSizeLimit covers the writers";
  ASSERT_EQ(run(job("whole/")).code, 0);
  const Done done = run(job("disk/cut/"));
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("disk/cut"), HasSubstr("No space left"), HasSubstr("window"),
                              HasSubstr("--resume")));
  EXPECT_TRUE(fs::exists(path("disk/cut.resume")));
  EXPECT_GE(inside("disk/cut.windows").size(), 1u) << "finished windows are kept";
  EXPECT_THAT(inside("disk/cut"), IsEmpty());
  disk.grow();
  const Done rest = run(job("disk/cut/", {"--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_GE(events(rest.out, "resume").at(0).at("window").get<int>(), 2);
  expect_same("whole/", "disk/cut/");
  expect_nothing_kept("disk/cut");
}

// The encoder's file may not grow any further here.
TEST_F(TalkResume, TheVideoCannotBeWrittenOn) {
  ASSERT_EQ(run(job("whole.mp4", {"--crf", "1"})).code, 0);
  const Done done = run_limited(job("cut.mp4", {"--crf", "1"}), fs::file_size(path("whole.mp4")) - 500);
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("cut.mp4"), HasSubstr("File too large"), HasSubstr("window"),
                              HasSubstr("--resume")));
  EXPECT_EQ(inside("cut.mp4.windows").size(), 5u);
  const Done rest = run(job("cut.mp4", {"--crf", "1", "--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(events(rest.out, "resume").at(0).at("window"), 6);
  expect_same("whole.mp4", "cut.mp4");
  expect_nothing_kept("cut.mp4");
}

// If the windows cannot be kept but the video can be written, it is written, and a warning says what is not
// kept.
TEST_F(TalkResume, WindowsThatCannotBeKeptCostTheStateAlone) {
  ASSERT_EQ(run(job("whole.mp4", {"--crf", "45"})).code, 0);
  const auto limit = fs::file_size(path("whole.mp4")) + 2000;
  const Done done = run_limited(job("large.mp4", {"--crf", "45"}), limit);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("0001.frames"), HasSubstr("File too large"), HasSubstr("goes on without")));
  expect_same("whole.mp4", "large.mp4");
  expect_nothing_kept("large.mp4");
  write("taken.mp4.windows", "mine");
  const Done taken = run(job("taken.mp4", {"--crf", "45"}));
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.err, AllOf(HasSubstr("taken.mp4.windows"), HasSubstr("goes on without")));
  expect_same("whole.mp4", "taken.mp4");
  EXPECT_EQ(read_text(path("taken.mp4.windows")), "mine");
  // A folder that holds other files keeps these; files that a run has left there are removed.
  fs::create_directory(path("kept.mp4.windows"));
  write("kept.mp4.windows/notes.txt", "mine");
  write("kept.mp4.windows/0003.frames", "tachyscope frames 1\nan old one");
  EXPECT_EQ(run(job("kept.mp4", {"--crf", "45"})).code, 0);
  EXPECT_EQ(inside("kept.mp4.windows"), (std::set<std::string>{"notes.txt"}));
}

TEST_F(TalkResume, TheOutputsFolderGoesAwayAndComesBack) {
  ASSERT_EQ(run(job("whole.mp4")).code, 0);
  fs::create_directory(path("out"));
  const pid_t child = start(job("out/cut.mp4"));
  ASSERT_TRUE(wait_for("denoise", 3, 7));
  fs::rename(path("out"), path("away"));
  const Done done = finish(child);
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_THAT(done.err, HasSubstr("out/cut.mp4"));
  EXPECT_GE(inside("away/cut.mp4.windows").size(), 2u);
  fs::rename(path("away"), path("out"));
  const Done rest = run(job("out/cut.mp4", {"--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_GE(events(rest.out, "resume").at(0).at("window").get<int>(), 3);
  expect_same("whole.mp4", "out/cut.mp4");
  EXPECT_EQ(inside("out"), (std::set<std::string>{"cut.json", "cut.mp4"}));
}

TEST_F(TalkResume, TheProgressIsOfAllWindows) {
  const Done done = run(job("a.gif", {"--preview", "small.png"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(fs::exists(path("small.png")));
  int window = 1, steps = 0;
  bool known = false;
  for (const json& p : events(done.out, "progress")) {
    ASSERT_EQ(p.at("windows"), 6);
    EXPECT_GE(p.at("window").get<int>(), window);
    window = p.at("window");
    if (p.at("stage") == "denoise") {
      EXPECT_GE(p.at("done").get<int>(), steps);
      steps = p.at("done");
    }
    const bool windowed =
        p.at("stage") == "denoise" || p.at("stage") == "decode" || p.at("stage") == "motion";
    if (windowed && known) {
      EXPECT_TRUE(p.at("eta_seconds").is_number());
    }
    known = known || (windowed && p.at("eta_seconds").is_number());
  }
  EXPECT_EQ(window, 6);
  EXPECT_EQ(steps, 18);
}

TEST(TalkProgressLine, SaysWindowAndStep) {
  cli::ProgressLine line(cli::ProgressLine::Mode::quiet);
  Progress p{"denoise", 9, 56, 100, 3700, 2, 14};
  EXPECT_THAT(line.line(p), AllOf(HasSubstr("window 3 of 14"), HasSubstr("step 2 of 4"), HasSubstr("███░"),
                                  HasSubstr("1 h 01 min left")));
  p.stage = "decode", p.done = 150, p.total = 1000;
  EXPECT_THAT(line.line(p), AllOf(HasSubstr("window 3 of 14"), HasSubstr("decoding"), HasSubstr("███░")))
      << "the bar stays";
  p = {"denoise", 3, 4, 10, 20};
  EXPECT_THAT(line.line(p), AllOf(HasSubstr("denoise"), HasSubstr("3/4"), Not(HasSubstr("window"))));
}

}  // namespace
}  // namespace tachy::test
