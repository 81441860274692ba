// Tests whole runs of the command line: names of outputs, settings, repetition, plan, JSON, memory.
#include <nlohmann/json.hpp>
#include <set>

#include "binary.h"
#include "media/metadata.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Runs : public CliTest {
 protected:
  struct Bits {
    std::string frames, latents;
    bool bf16;  // whether the CPU has the bf16 products that were asked for
  };
  // Sets an environment variable for the runs that start while it lives.
  struct Setting {
    Setting(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
    ~Setting() { unsetenv(name); }
    Setting(const Setting&) = delete;
    const char* name;
  };
  // Returns all pictures of a folder, one after another.
  std::string pictures(const std::string& name) {
    std::string bytes;
    for (int i = 0; fs::exists(path(fmt_name(name, i))); ++i) {
      const RgbFrameText frame{read_pixels(path(fmt_name(name, i)))};
      bytes += frame.text;
    }
    EXPECT_FALSE(bytes.empty()) << name;
    return bytes;
  }

 private:
  struct RgbFrameText {
    std::string text;
  };
  static std::string fmt_name(const std::string& name, int i) {
    char out[64];
    std::snprintf(out, sizeof out, "/frame_%04d.png", i);
    return name + out;
  }
  // Returns the parts of the file that hold pixels: signature, IHDR, IDAT. The comment holds settings, for
  // example the model's folder, and is left out.
  static std::string read_pixels(const fs::path& file) {
    const std::string png = read_text(file);
    std::string out;
    for (size_t at = 8; at + 12 <= png.size();) {
      const auto byte = [&](size_t i) {
        return static_cast<size_t>(static_cast<unsigned char>(png[at + i]));
      };
      const size_t length = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
      const std::string type = png.substr(at + 4, 4);
      if (type == "IHDR" || type == "IDAT") out += png.substr(at, length + 12);
      at += length + 12;
    }
    return out;
  }
};

TEST_F(Runs, ARequestIsResolvedTokenisedAndPlannedOnce) {
  const Setting log("TACHY_LOG", "plan");
  const Done one = run(generate({"a red cat", "--seed", "1", "-o", "a.mp4"}));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.err, HasSubstr("requests so far: 1 resolved, 1 tokenised, 1 planned"));
  const Done two = run(generate({"a red cat", "--seed", "1", "--seed", "2", "-o", "b.mp4"}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.err, HasSubstr("requests so far: 2 resolved, 2 tokenised, 2 planned"));
  EXPECT_THAT(two.err, testing::Not(HasSubstr("3 resolved")));
}

TEST_F(Runs, SettingsBesideAndInsideTheVideo) {
  for (const char* name : {"clip.mp4", "clip.webm", "clip.gif"}) {
    const Done done = run(generate({"a red cat", "--seed", "7", "-o", name, "-q"}));
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.err, IsEmpty());
    const bool first = name == std::string("clip.mp4");
    json beside = json::parse(read_text(path(first ? "clip.json" : std::string(name) + ".json")));
    EXPECT_EQ(beside["output"], name);
    beside.erase("output");
    EXPECT_EQ(json::parse(read_comment(path(name))), beside) << name;
    EXPECT_EQ(beside["seed"], 7);
    EXPECT_EQ(beside["prompt"], "a red cat");
    EXPECT_EQ(beside["num_frames"], 5);
    EXPECT_EQ(beside["sampler"], "unipc");
    EXPECT_EQ(beside["negative_prompt"], "ugly");
  }
  EXPECT_THAT(files(), ElementsAre("clip.gif", "clip.gif.json", "clip.json", "clip.mp4", "clip.webm",
                                   "clip.webm.json"));
}

#if defined(__x86_64__)
// The text cache's keys name the CPU, and asking Highway about it must not lift the limit.
TEST_F(Runs, AnInstructionSetIsKeptAfterTheCpuIsDescribed) {
  const Setting limit("TACHY_ISA", "sse4");
  for (const char* name : {"plain", "cached"}) {
    std::vector<std::string> words{"a red cat",
                                   "--steps",
                                   "2",
                                   "--save-latents",
                                   std::string(name) + ".safetensors",
                                   "-o",
                                   std::string(name) + ".mp4"};
    if (name == std::string("cached")) words.insert(words.end(), {"--text-cache", "cache"});
    const Done done = run(generate(words));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  EXPECT_EQ(read_text(path("cached.safetensors")), read_text(path("plain.safetensors")));
}
#endif

// Two processes make the same embeddings at the same time, and one after them finds these.
TEST_F(Runs, TextCacheGivesTheSameFrames) {
  const auto with = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"a red cat", "--steps", "2", "--save-latents", name + ".safetensors", "-o", name + ".mp4"});
    return generate(more);
  };
  ASSERT_EQ(run(with("plain", {})).code, 0);
  const pid_t one = start(with("one", {"--text-cache", "cache"})),
              two = start(with("two", {"--text-cache", "cache"}));
  EXPECT_EQ(finish(one).code, 0);
  EXPECT_EQ(finish(two).code, 0);
  const Done found = run(with("found", {"--text-cache", "cache"}));
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.err, testing::Not(HasSubstr("warning")));
  for (const char* name : {"one", "two", "found"})
    EXPECT_EQ(read_text(path(std::string(name) + ".safetensors")), read_text(path("plain.safetensors")))
        << name;
  size_t kept = 0;
  for (const auto& entry : fs::directory_iterator(path("cache")))
    kept += entry.path().extension() == ".safetensors";
  EXPECT_EQ(kept, 2u);
  EXPECT_EQ(kept, static_cast<size_t>(std::distance(fs::directory_iterator(path("cache")), {})))
      << "nothing else";
  const Done plan = run(with("plan", {"--text-cache", "cache", "--plan", "--json"}));
  const json text = json::parse(plan.out)["stages"][0];
  EXPECT_EQ(text["stage"], "text");
  EXPECT_EQ(text["weight_bytes"], 0);
}

TEST_F(Runs, FromRepeatsBitForBit) {
  const std::string prompt = "the “red” cat, 红色 \\ \"quoted\"";
  ASSERT_EQ(run(generate({prompt, "--seed", "18446744073709551615", "--steps", "3", "--guidance", "2.7",
                          "--sampler", "dpm++", "--size", "48x32", "-o", "first/"}))
                .code,
            0);
  ASSERT_EQ(run(generate({prompt, "--seed", "18446744073709551615", "--steps", "3", "--guidance", "2.7",
                          "--sampler", "dpm++", "--size", "48x32", "-o", "clip.mp4"}))
                .code,
            0);
  const std::string want = pictures("first");
  for (const char* from : {"first/settings.json", "clip.json", "clip.mp4", "first/frame_0002.png", "first"}) {
    const Done done = run({"generate", "--from", from, "-o", "again/", "-t", "3", "--weights", "mapped"});
    EXPECT_EQ(done.code, 0) << from << done.err;
    EXPECT_EQ(pictures("again"), want) << from;
    fs::remove_all(path("again"));
  }
  ASSERT_EQ(run({"generate", "--from", "clip.mp4", "--seed", "8", "-o", "other/"}).code, 0);
  EXPECT_NE(pictures("other"), want) << "options given override the settings";
  EXPECT_EQ(json::parse(read_text(path("other/settings.json")))["sampler"], "dpm++");
}

TEST_F(Runs, SameFileTwice) {
  ASSERT_EQ(run(generate({"a cat", "-o", "a.mp4"})).code, 0);
  ASSERT_EQ(run(generate({"a cat", "-o", "b.mp4", "-t", "1"})).code, 0);
  EXPECT_EQ(read_text(path("a.mp4")), read_text(path("b.mp4")));
}

TEST_F(Runs, NamesOfManyVideos) {
  ASSERT_EQ(run(generate({"--seed", "7", "A red ball, rolling!"})).code, 0) << "a prompt after a seed";
  EXPECT_THAT(files(), ElementsAre("a-red-ball-rolling-7.json", "a-red-ball-rolling-7.mp4"));
  ASSERT_EQ(run(generate({"-p", "one", "-p", "[two, 2]", "-s", "1", "-s", "2", "-o", "v.gif"})).code, 0);
  EXPECT_EQ(json::parse(read_text(path("v-1.json")))["prompt"], "one");
  EXPECT_EQ(json::parse(read_text(path("v-2.json")))["seed"], 2);
  EXPECT_EQ(json::parse(read_text(path("v-3.json")))["prompt"], "[two, 2]");
  EXPECT_TRUE(fs::exists(path("v-4.gif")));
  EXPECT_FALSE(fs::exists(path("v-5.gif")));
  write("prompts.txt", "# first\none\r\n\n[two, 2]\n");
  ASSERT_EQ(run(generate({"--prompt-file", "prompts.txt", "-s", "2", "-o", "w.gif"})).code, 0);
  EXPECT_EQ(read_text(path("w-1.gif")), read_text(path("v-2.gif")));
  EXPECT_EQ(read_text(path("w-2.gif")), read_text(path("v-4.gif"))) << "the model was kept between the runs";
  ASSERT_EQ(run(generate({"红色的猫"})).code, 0);
  EXPECT_TRUE(fs::exists(path("红色的猫-0.mp4")));
}

// Runs in each of this CPU's ways of multiplying bf16; the plain loops run anywhere.
TEST_F(Runs, Bf16BitsDoNotDependOnThreadsOrRepetition) {
  for (const char* weights : {"packed", "mapped"}) {
    const bool packed = weights == std::string("packed");
    const auto job = [&](const std::string& dtype, const std::string& threads) {
      const Done done =
          run(generate({"a red cat", "--size", packed ? "48x32" : "320x320", "--frames", packed ? "9" : "1",
                        "--steps", packed ? "3" : "1", "--dtype", dtype, "-t", threads, "--weights", weights,
                        "--save-latents", "l.safetensors", "-o", "run/"}));
      EXPECT_EQ(done.code, 0) << done.err;
      const auto source = open_safetensors(path("l.safetensors"));
      const auto& latents = source->entries()[0];  // the file's only tensor
      Bits bits{pictures("run"), std::string(static_cast<const char*>(latents.data), latents.bytes),
                done.err.find("stay in float32") == std::string::npos};
      fs::remove_all(path("run")), fs::remove(path("l.safetensors"));
      return bits;
    };
    const Bits wide = job("f32", "2");
    for (const char* way : {"amx", "avx512", "portable"}) {
      SCOPED_TRACE(std::string(way) + ", " + weights);
      const Setting setting("TACHY_BF16", way);
      const Bits first = job("bf16", "1");
      if (!first.bf16) {
        EXPECT_STRNE(way, "portable");
        EXPECT_TRUE(first.latents == wide.latents) << "the products stayed in float32";
        continue;
      }
      EXPECT_TRUE(first.latents != wide.latents) << "nothing was multiplied in bf16";
      for (const char* threads : {"3", "3"}) {
        const Bits other = job("bf16", threads);
        EXPECT_TRUE(first.latents == other.latents) << threads << " threads: other latents";
        EXPECT_TRUE(first.frames == other.frames) << threads << " threads: other frames";
      }
    }
  }
}

TEST_F(Runs, OneFrameIsSaidInTheSingular) {
  const Done done = run(generate({"x", "--size", "32x16", "--frames", "1", "--steps", "1", "-o", "a.png"}));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("a.png (1 frame of 32x16, "));
}

TEST_F(Runs, EmptyPromptWorks) {
  for (const auto& args :
       std::vector<std::vector<std::string>>{{"-p", ""}, {""}, {"--prompt", "", "-n", ""}}) {
    auto words = args;
    words.insert(words.end(), {"-o", "e.gif"});
    const Done done = run(generate(words));
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(json::parse(read_text(path("e.json")))["prompt"], "");
  }
}

TEST_F(Runs, APlanForAGpuThatIsNotHere) {
  const Done text = run(generate({"x", "--plan", "--gpu", "a100"}));
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word :
       {"denoise", "NVIDIA A100", "predicted, never run (no such GPU has run this program)"})
    EXPECT_THAT(text.out, HasSubstr(word));
  const Done two =
      run(generate({"x", "--plan", "--gpu", "h100", "--gpus", "2", "--guidance", "1", "--json"}));
  EXPECT_EQ(json::parse(two.out)["parallel"]["ulysses"], 2) << two.err;
  EXPECT_FALSE(json::parse(two.out)["parallel"]["equal_bits"].get<bool>())
      << "so short a clip is cut otherwise";
  const Done lines = run(generate({"x", "--plan", "--gpu", "l4", "--json", "--frames", "81"}));
  const json plan = json::parse(lines.out);
  EXPECT_EQ(plan["gpu"], "NVIDIA L4, 24 GB");
  EXPECT_FALSE(plan["ran_there"].get<bool>());
  EXPECT_GT(plan["seconds"].get<double>(), 0);
  EXPECT_GT(plan["seconds_most"].get<double>(), plan["seconds"].get<double>());
  for (const auto& stage : plan["stages"]) {
    double flops = 0;
    for (const auto& work : stage["work"]) flops += work["flops"].get<double>();
    // Work on the host beside a GPU (the time path) is only in this count.
    EXPECT_GE(flops, 0.999 * stage["flops"].get<double>()) << stage["stage"];
  }
  for (const auto& [given, said] :
       {std::pair<std::vector<std::string>, const char*>{{"--gpu", "l4"}, "--plan"},
        {{"--plan", "--gpu", "v100"}, "h200, h100, a100, a10, l4"},
        {{"--plan", "--gpu", "h200", "--gpus", "0,1"},
         "--gpus: with --gpu expected how many there are, 1 to 16, got '0,1'"},
        {{"--plan", "--gpu", "h200", "--gpus", "17"}, "1 to 16, got '17'"},
        {{"--plan", "--gpu", "l4", "--device", "cpu"}, "--device"}}) {
    std::vector<std::string> words = {"x"};
    words.insert(words.end(), given.begin(), given.end());
    const Done refused = run(generate(words));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr(said));
  }
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Runs, PlanPrintsAndStops) {
  const Done text = run(generate({"x", "--plan", "--size", "832x480", "--frames", "81"}));
  EXPECT_EQ(text.code, 0);
  for (const char* word : {"text", "denoise", "decode", "peak", "97.0 MB of frames"})
    EXPECT_THAT(text.out, HasSubstr(word));
  EXPECT_THAT(text.out, HasSubstr("ops of denoise: "));
  const Done lines = run(generate({"x", "--plan", "--json"}));
  EXPECT_EQ(lines.code, 0);
  const json plan = json::parse(lines.out);
  EXPECT_EQ(plan["event"], "plan");
  EXPECT_EQ(plan["stages"].size(), 3u);
  EXPECT_GT(plan["peak_bytes"].get<uint64_t>(), 0u);
  EXPECT_GT(plan["frame_queue_bytes"].get<uint64_t>(), 0u);
  for (const auto& stage : plan["stages"]) {
    std::set<std::string> ops;
    for (const auto& pick : stage["ops"]) ops.insert(pick["op"]);
    EXPECT_TRUE(ops.contains(stage["stage"] == "decode" ? "causal_conv3d" : "gemm")) << stage;
  }
  // The plan states what a run then uses.
  const auto first_gemm = [](const json& p) {
    for (const auto& pick : p["stages"][1]["ops"])
      if (pick["op"] == "gemm") return pick["implementation"].get<std::string>();
    return std::string();
  };
  EXPECT_NE(first_gemm(plan), "ref");
  EXPECT_EQ(first_gemm(json::parse(run(generate({"x", "--plan", "--json", "--level", "none"})).out)), "ref");
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Runs, JsonLines) {
  const Done done = run(generate({"x", "--json", "-o", "j.mp4"}));
  ASSERT_EQ(done.code, 0);
  std::istringstream lines(done.out);
  json last;
  int progress = 0;
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    progress += last["event"] == "progress";
  }
  EXPECT_GT(progress, 5);
  EXPECT_EQ(last["event"], "done");
  EXPECT_EQ(last["output"], "j.mp4");
  EXPECT_EQ(last["settings"], json::parse(read_text(path("j.json"))));
  EXPECT_THAT(run(generate({"x", "-q", "-o", "q.mp4"})).out, IsEmpty());
}

TEST_F(Runs, LatentsRoundTripAndPreview) {
  ASSERT_EQ(run(generate({"x", "--save-latents", "l.safetensors", "--preview", "p.png", "-o", "a/"})).code,
            0);
  EXPECT_TRUE(fs::exists(path("p.png")));
  const Done more = run(generate({"x", "--init-latents", "l.safetensors", "-o", "b/"}));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(pictures("a"), pictures("b"));
  ASSERT_EQ(run({"generate", "--from", "b/settings.json", "-o", "c/"}).code, 0);
  EXPECT_EQ(pictures("b"), pictures("c")) << "the settings name the latents";
  EXPECT_EQ(run(generate({"x", "--init-latents", "l.safetensors", "--frames", "9", "-o", "d/"})).code, 2);
}

#ifndef TACHY_SANITIZED
TEST_F(Runs, ResidentSizeIsThePlanAndAFixedPart) {
  const std::vector<std::string> size{"x",       "--size", "320x192", "--frames", "17",
                                      "--steps", "1",      "-o",      "m.mp4"};
  auto plan_args = size;
  plan_args.insert(plan_args.end(), {"--plan", "--json"});
  const json plan = json::parse(run(generate(plan_args)).out);
  uint64_t mapped = 0;
  for (const auto& stage : plan["stages"]) mapped += stage["mapped_bytes"].get<uint64_t>();
  const Done done = run(generate(size));
  ASSERT_EQ(done.code, 0);
  const uint64_t limit = plan["peak_bytes"].get<uint64_t>() + mapped + (uint64_t{150} << 20);
  EXPECT_LE(static_cast<uint64_t>(done.peak_kb) << 10, limit);
  RecordProperty("resident_mb", static_cast<int>(done.peak_kb >> 10));
  RecordProperty("plan_mb", static_cast<int>(plan["peak_bytes"].get<uint64_t>() >> 20));
}
#endif

}  // namespace
}  // namespace tachy::test
