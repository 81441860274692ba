// Tests what can happen to a long run on a machine: full and read-only disks, memory limits, kills, files
// that shrink while in use, damaged weights. Each ends in its documented exit code with a text that names the
// file or the number, and never in half a video under the final name.
#include <sys/mount.h>

#include <nlohmann/json.hpp>
#include <random>

#include "binary.h"
#include "media/picture/image_reader.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Faults : public CliTest {
 protected:
  // Runs the command with a resource limit that applies only to the child.
  Done run_limited(const std::vector<std::string>& args, int resource, rlim_t bytes) {
    struct rlimit before {};
    getrlimit(static_cast<__rlimit_resource>(resource), &before);
    // The parent's own limit is lowered while it forks, because a child of fork() must not do much before
    // exec().
    const struct rlimit lowered { bytes, before.rlim_max };
    setrlimit(static_cast<__rlimit_resource>(resource), &lowered);
    const pid_t child = start(args);
    setrlimit(static_cast<__rlimit_resource>(resource), &before);
    return finish(child);
  }
  std::set<std::string> temporaries() const {
    std::set<std::string> out;
    for (const std::string& name : files())
      if (name.ends_with(".part")) out.insert(name);
    return out;
  }
  // Waits until the run has printed `text` (with --json); returns false if it ended before.
  bool wait_for(const std::string& text) {
    for (int i = 0; i < 3000; ++i) {
      if (read_text(folder_.string() + ".out").find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // Waits until the process has taken a signal that it was sent.
  static bool wait_until_taken(pid_t process, int signal) {
    for (int i = 0; i < 3000; ++i) {
      std::istringstream status(read_text(fmt::format("/proc/{}/status", process)));
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("ShdPnd:") && !(std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1))
          return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

// A file system in memory that has room for hardly anything; only root may make one.
class SmallDisk {
 public:
  SmallDisk(const fs::path& at, const char* options, unsigned long flags = 0) : at_(at) {
    fs::create_directories(at_);
    mounted_ = mount("none", at_.c_str(), "tmpfs", flags, options) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

const std::vector<std::string> kLarge{"a cat", "--size", "320x192", "--frames", "17", "--steps", "1"};

std::vector<std::string> plus(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(Faults, FileSizeLimit) {
  for (const char* name : {"clip.mp4", "clip.webm", "clip.gif", "frames/"}) {
    const Done done = run_limited(generate(plus(kLarge, {"-o", name})), RLIMIT_FSIZE, 8192);
    EXPECT_EQ(done.code, 6) << name << ": " << done.err;
    EXPECT_THAT(done.err, HasSubstr(std::string(name) == "frames/" ? "frames" : name));
    EXPECT_THAT(done.err, HasSubstr("File too large"));
  }
  const Done latents =
      run_limited(generate({"x", "-o", "l.gif", "--save-latents", "l.safetensors"}), RLIMIT_FSIZE, 512);
  EXPECT_EQ(latents.code, 6) << latents.err;
  EXPECT_THAT(files(), testing::IsSubsetOf({"frames"})) << "half a file was left";
}

TEST_F(Faults, DiskFull) {
  const SmallDisk disk(path("disk"), "size=64k");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system takes root; FileSizeLimit covers the writers";
  for (const char* name : {"disk/clip.mp4", "disk/clip.webm", "disk/clip.gif", "disk/frames/"}) {
    const Done done = run(generate(plus(kLarge, {"-o", name})));
    EXPECT_EQ(done.code, 6) << name << ": " << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("disk/"), HasSubstr("No space left")));
    for (const auto& item : fs::recursive_directory_iterator(path("disk")))
      EXPECT_TRUE(item.is_directory()) << item.path();
  }
}

TEST_F(Faults, ReadOnlyDisk) {
  const SmallDisk disk(path("disk"), "size=64k", MS_RDONLY);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system takes root";
  for (const char* name : {"disk/clip.mp4", "disk/frames/"}) {
    const Done done = run(generate({"x", "--json", "-o", name}));
    EXPECT_EQ(done.code, 6) << name << ": " << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("disk/"), HasSubstr("Read-only")));
    EXPECT_THAT(done.out, testing::Not(HasSubstr("denoise"))) << "found before the work, not after";
  }
}

TEST_F(Faults, ReadOnlyFolderOfAnotherUser) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere; ReadOnlyDisk covers this";
  fs::create_directory(path("locked"));
  fs::permissions(path("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  const Done done = run(generate({"x", "-o", "locked/clip.mp4"}));
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("locked/clip.mp4"), HasSubstr("Permission denied")));
}

TEST_F(Faults, StandardOutputThatTakesNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const std::string& args : {"info " + model_path(), std::string("--help")}) {
    const std::string command =
        std::string(TACHY_BINARY) + " " + args + " > /dev/full 2> " + path("err").string();
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 6) << args;
    EXPECT_THAT(read_text(path("err")), HasSubstr("cannot write to standard output"));
  }
}

#ifndef TACHY_SANITIZED  // sanitizers reserve terabytes of address space
TEST_F(Faults, AddressSpaceBelowThePlanIsRefused) {
  const auto limit = rlim_t{800} << 20;  // the plan states 788 MB; the program itself takes some 300
  const Done done = run_limited(
      generate({"x", "--json", "--size", "1920x1088", "--frames", "81", "-t", "1", "-o", "a.mp4"}), RLIMIT_AS,
      limit);
  EXPECT_EQ(done.code, 7) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("838.9 MB"), HasSubstr("ulimit -v"), HasSubstr("--frames")));
  const auto plan = nlohmann::json::parse(
      run(generate({"x", "--plan", "--json", "--size", "1920x1088", "--frames", "81", "-t", "1"})).out);
  EXPECT_THAT(done.err, HasSubstr(std::to_string(plan["peak_bytes"].get<uint64_t>()) + " bytes"));
  EXPECT_THAT(done.out, IsEmpty()) << "nothing was started";
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(run_limited(generate({"x", "-t", "1", "-o", "a.gif"}), RLIMIT_AS, limit).code, 0)
      << "a small run fits";
}

// Limits below what the program itself takes lead to an error, not to a crash.
TEST_F(Faults, AddressSpaceOfAlmostNothing) {
  for (const int mb : {200, 250, 300, 350, 400, 450, 500, 600, 700}) {
    const Done done = run_limited(generate({"x", "-t", "8", "-o", "a.mp4"}), RLIMIT_AS, rlim_t(mb) << 20);
    EXPECT_TRUE(done.code == 0 || done.code == 7 ||
                (done.code == 127 && done.err.find("shared libraries") != std::string::npos))
        << mb << " MB: " << done.code << " " << done.err;
    EXPECT_THAT(temporaries(), IsEmpty());
  }
}
#endif

TEST_F(Faults, KilledAtTenRandomMoments) {
  const auto args = [&](const char* output) {
    return generate({"a cat", "--size", "96x96", "--frames", "33", "--steps", "20", "--resume",
                     "--state-every", "0", "-q", "-o", output});
  };
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(args("whole.mp4")).code, 0);
  const auto whole =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const std::string frames = read_text(path("whole.mp4"));
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int killed = 0;
  for (int i = 0; i < 10 || (killed < 3 && i < 40);
       ++i) {  // the machine may have been held up when it made `whole`
    const pid_t child = start(args("new.mp4"));
    std::this_thread::sleep_for(whole * (random() % 1000) / 1000);
    kill(child, SIGKILL);
    const Done done = finish(child);
    EXPECT_TRUE(done.code == 1000 + SIGKILL || done.code == 0) << done.code << done.err;
    killed += done.code != 0;
    const auto left = temporaries();
    EXPECT_LE(left.size(), 3u) << "this run did not remove what the one before it left";
    for (const std::string& name : left) EXPECT_TRUE(name.starts_with(".new.")) << name;
    // The video appears whole or not at all; its settings follow it.
    if (fs::exists(path("new.mp4"))) {
      EXPECT_EQ(read_text(path("new.mp4")), frames) << "kill " << i;
    }
    if (fs::exists(path("new.json"))) {
      EXPECT_TRUE(fs::exists(path("new.mp4")));
      EXPECT_TRUE(nlohmann::json::accept(read_text(path("new.json"))));
    }
    // Half of the time the next run resumes the state that this one left, and half of the time it begins
    // anew.
    if (i % 2 == 0) {
      const Done rest = run(args("new.mp4"));
      EXPECT_EQ(rest.code, 0) << "kill " << i << ": " << rest.err;
      EXPECT_EQ(read_text(path("new.mp4")), frames) << "kill " << i << ": resumed, and other frames";
      fs::remove(path("new.mp4")), fs::remove(path("new.json"));
    }
  }
  EXPECT_GE(killed, 3) << "the kills came too late to say anything";
  fs::remove(path("new.mp4")), fs::remove(path("new.json"));
  EXPECT_EQ(run(args("new.mp4")).code, 0);
  EXPECT_THAT(files(), testing::ElementsAre("new.json", "new.mp4", "whole.json", "whole.mp4"))
      << "the last run cleans up";
}

TEST_F(Faults, LeftoversOfLivingProcessesStay) {
  const std::string living = ".new.gif." + std::to_string(getpid()) + "-0.part";
  for (const std::string& name :
       {living, std::string(".new.gif.999999999-3.part"), std::string(".other.gif.999999999-0.part"),
        std::string(".new.gif.mine.part")})
    write(name, "x");
  ASSERT_EQ(run(generate({"x", "-o", "new.gif"})).code, 0);
  EXPECT_THAT(files(), testing::ElementsAre(living, ".new.gif.mine.part", ".other.gif.999999999-0.part",
                                            "new.gif", "new.json"));
}

TEST_F(Faults, SecondInterruptEndsAtOnce) {
  // A single step takes many seconds here: the first ctrl-C would only be noticed after it.
  const pid_t child = start(
      generate({"a cat", "--size", "832x480", "--frames", "33", "--steps", "4", "--json", "-o", "new.mp4"}));
  ASSERT_TRUE(wait_for("denoise"));
  EXPECT_EQ(temporaries().size(), 1u);
  kill(child, SIGINT);
  ASSERT_TRUE(wait_until_taken(child, SIGINT)) << "two that wait are one";
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto begin = std::chrono::steady_clock::now();
  kill(child, SIGINT);
  const Done done = finish(child);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_THAT(files(), IsEmpty()) << "temporaries are removed even then";
}

// Fixture for weights that are truncated while a run uses them.
class Shrinking : public Faults {
 protected:
  void SetUp() override {
    Faults::SetUp();
    fs::copy(model_path(), path("model"), fs::copy_options::recursive);
  }
  std::vector<std::string> slow_run(const std::string& weights) const {
    return {"generate", "a cat",  "-m",        "model", "--size", "96x96", "--frames", "17",     "--steps",
            "300",      "--json", "--weights", weights, "-t",     "1",     "-o",       "new.mp4"};
  }
  Done shrink_during(const std::string& weights, const char* file, uintmax_t size) {
    const pid_t child = start(slow_run(weights));
    EXPECT_TRUE(wait_for("\"denoise\""));
    fs::resize_file(path(file), size);
    return finish(child);
  }
};

TEST_F(Shrinking, MappedWeightsNameTheFile) {
  const char* transformer = "model/transformer/diffusion_pytorch_model.safetensors";
  for (const uintmax_t left :
       {uintmax_t{0}, fs::file_size(path(transformer)) / 2, fs::file_size(path(transformer)) - 1}) {
    fs::copy_file(model_path() + std::string(transformer + 5), path(transformer),
                  fs::copy_options::overwrite_existing);
    const Done done = shrink_during("mapped", transformer, left);
    EXPECT_EQ(done.code, 6) << done.code << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr(transformer), HasSubstr("--weights read")));
    EXPECT_THAT(temporaries(), IsEmpty());
    EXPECT_FALSE(fs::exists(path("new.mp4")));
  }
}

TEST_F(Shrinking, AStageThatHasNotBegunYet) {
  const char* vae = "model/vae/diffusion_pytorch_model.safetensors";
  const Done done = shrink_during("packed", vae, 4096);
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_THAT(done.err, HasSubstr(vae));
  EXPECT_FALSE(fs::exists(path("new.mp4")));
}

TEST_F(Shrinking, ReadWeightsDoNotCare) {
  ASSERT_EQ(run(generate({"a cat", "-o", "want/", "--size", "96x96", "--frames", "5", "--steps", "40"})).code,
            0);
  const pid_t other = start({"generate", "a cat", "-m", "model", "--size", "96x96", "--frames", "5",
                             "--steps", "40", "--json", "--weights", "read", "-t", "1", "-o", "got/"});
  ASSERT_TRUE(wait_for("\"denoise\""));
  for (const char* part :
       {"transformer/diffusion_pytorch_model", "vae/diffusion_pytorch_model", "text_encoder/model"})
    fs::resize_file(path(std::string("model/") + part + ".safetensors"), 0);
  const Done done = finish(other);
  EXPECT_EQ(done.code, 0) << done.err;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "/frame_000" + std::to_string(i) + ".png";
    const RgbFrame got = read_image(path("got" + name)), want = read_image(path("want" + name));
    EXPECT_EQ(got.rgb, want.rgb) << name;
  }
}

// In each component, including the image encoder, a NaN is the first value of a tensor; the run's error names
// that component's stage.
TEST_F(Faults, NaNNamesTheStage) {
  struct Plant {
    const char *model, *file, *tensor, *says;
  };
  for (const Plant& plant :
       {Plant{"pipeline/model", "text_encoder/model", "encoder.final_layer_norm.weight", "text encoder"},
        Plant{"pipeline/model", "transformer/diffusion_pytorch_model", "proj_out.bias", "transformer"},
        Plant{"pipeline/model", "vae/diffusion_pytorch_model", "decoder.conv_out.bias", "vae decode"},
        Plant{"image_pipeline/ti2v", "vae/diffusion_pytorch_model", "encoder.conv_in.bias", "vae encode"},
        Plant{"image_pipeline/ti2v", "vae/diffusion_pytorch_model", "encoder.conv_out.bias", "vae encode"}}) {
    SCOPED_TRACE(plant.tensor);
    fs::remove_all(path("model"));
    fs::copy(golden(plant.model), path("model"), fs::copy_options::recursive);
    std::vector<std::string> args{"generate", "x", "-m", "model", "-t", "2", "-o", "a.mp4"};
    if (plant.model != std::string("pipeline/model"))
      args.insert(args.end(), {"--image", golden("image_pipeline/first.png"), "--size", "96x64", "--frames",
                               "5", "--steps", "2"});
    const Done whole = run(args);
    ASSERT_EQ(whole.code, 0) << "without NaN: " << whole.err;
    fs::remove(path("a.mp4"));
    const fs::path file = path("model") / (std::string(plant.file) + ".safetensors");
    {
      std::string bytes = read_text(file);
      const auto source = open_safetensors(file);
      const auto* entry = source->find(plant.tensor);
      ASSERT_NE(entry, nullptr);
      const auto at =
          static_cast<const char*>(entry->data) - reinterpret_cast<const char*>(source->files()[0]->data());
      bytes.replace(static_cast<size_t>(at), 2, "\xff\xff"),
          bytes.replace(static_cast<size_t>(at) + 2, 2, "\xff\x7f");
      std::ofstream(file, std::ios::binary) << bytes;
    }
    const Done done = run(args);
    EXPECT_EQ(done.code, 8) << done.err;
    EXPECT_THAT(done.err, HasSubstr(plant.says));
    EXPECT_FALSE(fs::exists(path("a.mp4")));
  }
}

}  // namespace
}  // namespace tachy::test
