// Tests what a run reports on its way: a seed that is drawn, signs of life without a terminal, and readers
// that go away.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "../pipelines/world_model.h"
#include "binary.h"
#include "cli/heartbeat.h"
#include "cli/progress.h"
#include "media/metadata.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Told : public CliTest {
 protected:
  // Runs with standard output, or with error output, going to a pipe that nobody reads.
  Done run_unread(const std::vector<std::string>& args, const std::string& redirection) {
    std::string line = "exec \"$0\" \"$@\" " + redirection;
    int nobody[2];
    EXPECT_EQ(pipe(nobody), 0);
    close(nobody[0]);
    const std::string err = (folder_.string() + ".told");
    const pid_t child = fork();
    if (child == 0) {
      dup2(nobody[1], 3);
      const int e = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(e, 4);
      setenv("TACHY_DEVICE", "cpu", 1);
      if (chdir(folder_.c_str()) != 0) _exit(99);
      const char* emulator = std::getenv("TACHY_TEST_EMULATOR");
      std::istringstream before(emulator ? emulator : "");
      std::vector<std::string> words{"sh", "-c", line};
      words.insert(words.end(), std::istream_iterator<std::string>(before), {});
      words.emplace_back(TACHY_BINARY);
      words.insert(words.end(), args.begin(), args.end());
      std::vector<char*> argv;
      for (auto& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp("sh", argv.data());
      _exit(98);
    }
    close(nobody[1]);
    int status = 0;
    Done done;
    waitpid(child, &status, 0);
    done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    done.err = read_text(err);
    fs::remove(err);
    return done;
  }
  // Returns the seeds that a run with --json reported.
  static std::vector<uint64_t> seeds(const std::string& out) {
    std::vector<uint64_t> found;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line, nullptr, false);
      if (!j.is_discarded() && j.value("event", "") == "seed") found.push_back(j["seed"].get<uint64_t>());
    }
    return found;
  }
};

TEST_F(Told, ADrawnSeedIsSaidAndKept) {
  write("p.txt", "one\ntwo\n");
  const Done done =
      run(generate({"--prompt-file", "p.txt", "--seed", "-1", "-s", "-1", "--json", "-o", "v.gif"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const std::vector<uint64_t> drawn = seeds(done.out);
  ASSERT_EQ(drawn.size(), 4u) << "one for each prompt and mention";
  EXPECT_EQ(std::set<uint64_t>(drawn.begin(), drawn.end()).size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(json::parse(read_text(path(fmt::format("v-{}.json", i + 1))))["seed"], drawn[i]);
  // --from repeats that seed.
  ASSERT_EQ(run({"generate", "--from", "v-2.gif", "-o", "again.gif"}).code, 0);
  EXPECT_EQ(read_text(path("again.gif")), read_text(path("v-2.gif")));
  // Without JSON the seed is printed in words, and is in the name.
  const Done words = run(generate({"a cat", "-s", "-1"}));
  const std::string seed = words.out.substr(5, words.out.find('\n') - 5);
  EXPECT_TRUE(fs::exists(path("a-cat-" + seed + ".mp4"))) << words.out;
}

TEST_F(Told, AnInterruptedRunOfADrawnSeedGoesOnWithIt) {
  for (const bool named : {true, false}) {
    std::vector<std::string> more{"a cat",  "--size", "48x48",  "--frames",      "9", "--steps", "50",
                                  "--seed", "-1",     "--json", "--state-every", "0"};
    if (named) more.insert(more.end(), {"-o", "n.mp4"});
    const auto args = generate(more);
    const pid_t child = start(args);
    std::string state;
    for (int i = 0; i < 30000 && state.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (const std::string& name : files())
        if (name.ends_with(".mp4.resume")) state = name;
    }
    kill(child, SIGKILL);
    const std::vector<uint64_t> drawn = seeds(finish(child).out);
    ASSERT_EQ(drawn.size(), 1u);
    auto again = args;
    again.push_back("--resume");
    const Done rest = run(again);
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(seeds(rest.out), drawn);
    EXPECT_THAT(rest.out, AllOf(HasSubstr("\"resume\""), Not(HasSubstr("\"step\":0"))));
    EXPECT_FALSE(fs::exists(path(state)));
  }
}

TEST_F(Told, AWorldsDrawnSeed) {
  const WorldModel model({.world = WorldModel::world()});
  const auto world = [&](const std::string& seed, const std::string& output) {
    return run({"world", "-m", model.path().string(), "-t", "2", "-i", golden("image_pipeline/first.png"),
                "--frames", "1", "--seed", seed, "-o", output, "--json"});
  };
  const Done done = world("-1", "a.png");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto drawn = seeds(done.out);
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(json::parse(read_comment(path("a.png")))["seed"], drawn[0]);
  EXPECT_EQ(world(std::to_string(drawn[0]), "b.png").code, 0);
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
}

TEST_F(Told, AReaderThatGoesAwayIsNoError) {
  constexpr int kBySigpipe = 1000 + SIGPIPE;
  const std::string no_output = ">&3 2>&4";
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"--help"}, {"generate", "--help"}, {"--version"}, {"info", model_path()}, {"presets"}}) {
    const Done done = run_unread(args, no_output);
    EXPECT_EQ(done.code, kBySigpipe) << args[0];
    EXPECT_EQ(done.err, "") << args[0];
  }
  for (const bool as_json : {false, true}) {  // the video is made even if nobody reads the reports
    auto args = generate({"x", "-o", "a.mp4"});
    if (as_json) args.push_back("--json");
    const Done done = run_unread(args, no_output);
    EXPECT_EQ(done.code, kBySigpipe);
    EXPECT_THAT(done.err, Not(HasSubstr("tachyscope")));
    EXPECT_THAT(files(), testing::ElementsAre("a.json", "a.mp4"));
    fs::remove(path("a.json")), fs::remove(path("a.mp4"));
  }
  const Done video = run_unread(generate({"x", "-q", "-o", "-"}), no_output);
  EXPECT_EQ(video.code, kBySigpipe);
  EXPECT_EQ(video.err, "");
  // Nobody reads the errors, either.
  EXPECT_EQ(run_unread(generate({"x", "-o", "a.mp4"}), ">&4 2>&3").code, kBySigpipe);
  EXPECT_EQ(run_unread({"generate", "--nope"}, ">&4 2>&3").code, 2);
  EXPECT_EQ(run_unread({"info", "gone"}, ">&3 2>&3").code, 3);
  // If standard output or errors are closed, no line gets into a file that takes their descriptor.
  EXPECT_EQ(run_unread(generate({"x", "-o", "b.mp4"}), "<&- 2>&-").code, 0);
  EXPECT_EQ(run_unread(generate({"x", "-o", "c.mp4", "-q"}), "<&- >&- 2>&-").code, 0);
  EXPECT_EQ(read_text(path("b.mp4")), read_text(path("a.mp4")));
}

TEST_F(Told, APlainLineAsEachStageBegins) {
  const Done done = run(generate({"x", "-o", "a.mp4"}));
  ASSERT_EQ(done.code, 0);
  EXPECT_EQ(done.err,
            "text begins: 0 of 2\nload begins: 0 of 2\ndenoise begins: 0 of 2\ndecode begins: 0 of 5\n");
  EXPECT_EQ(run(generate({"x", "-o", "a.mp4", "-q"})).err, "");
  EXPECT_EQ(run(generate({"x", "-o", "a.mp4", "--json"})).err, "");
}

// Here a line follows after 20 milliseconds instead of 30 seconds.
TEST(Signs, EveryThirtySecondsShareAndTimeLeft) {
  testing::internal::CaptureStderr();
  {
    cli::ProgressLine progress(cli::ProgressLine::Mode::plain, 0.02);
    progress.update({.stage = "denoise", .done = 0, .total = 20});
    progress.update({.stage = "denoise", .done = 7, .total = 20, .elapsed_seconds = 130, .eta_seconds = 242});
    struct stat said {};  // standard errors are a file meanwhile
    for (int i = 0; i < 20'000 && (fstat(STDERR_FILENO, &said) != 0 || said.st_size < 400); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    progress.update({.stage = "decode", .done = 0, .total = 9});
  }
  std::istringstream said(testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(said, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 4u) << "a step that takes long is no silence";
  EXPECT_EQ(lines.front(), "denoise begins: 0 of 20");
  EXPECT_THAT(
      lines, testing::Contains("denoise: 7 of 20 (35 %), 2 min 10 s, 4 min 02 s left").Times(testing::Ge(2)));
  EXPECT_THAT(lines, testing::Contains("decode begins: 0 of 9"));
  testing::internal::CaptureStderr();
  {  // the windows of a talking photo
    cli::ProgressLine windows(cli::ProgressLine::Mode::plain);
    for (int64_t w = 0; w < 2; ++w)
      for (const char* stage : {"denoise", "decode", "motion"})
        windows.update({.stage = stage, .done = 0, .total = 6, .window = w, .windows = 2});
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "window 1 of 2 begins\nwindow 2 of 2 begins\n");
  testing::internal::CaptureStderr();
  {
    cli::ProgressLine quick(cli::ProgressLine::Mode::plain);
    quick.update({.stage = "denoise", .done = 0, .total = 20});
    for (int i = 1; i <= 20; ++i) quick.update({.stage = "denoise", .done = i, .total = 20});
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "denoise begins: 0 of 20\n") << "no line for each step";
}

}  // namespace
}  // namespace tachy::test
