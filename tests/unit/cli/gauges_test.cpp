// Tests validate, bench, compare, all, doctor and --profile as a user sees them: tables, JSON, exit codes.
#include <nlohmann/json.hpp>

#include "../pipelines/world_model.h"
#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Gauges : public CliTest {
 protected:
  // Returns the JSON that doctor prints at level none. Its self-test takes seconds, so it runs once.
  const json& doctor() {
    static const json said =
        json::parse(run({"doctor", "--json", "--level", "none", "-m", model_path()}).out);
    return said;
  }
};

TEST_F(Gauges, HelpTeaches) {
  for (const char* command : {"validate", "correctness", "bench", "benchmark", "compare", "all", "doctor"}) {
    const Done done = run({command, "--help"});
    EXPECT_EQ(done.code, 0) << command;
    EXPECT_THAT(done.out, HasSubstr("Usage")) << command;
  }
  EXPECT_THAT(run({"validate", "--help"}).out, AllOf(HasSubstr("Exit code 10"), HasSubstr("Examples")));
  EXPECT_THAT(run({"--help"}).out, HasSubstr("10 a check missed"));
}

TEST_F(Gauges, ValidateOps) {
  const Done table = run({"validate", "--ops-only", "--op", "rope", "-t", "2"});
  EXPECT_EQ(table.code, 0) << table.out << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("rope"), HasSubstr("0 failed")));
  const Done done =
      run({"validate", "--ops-only", "--op", "gemm", "--mode", "ref", "--cases", "tiny", "--json"});
  EXPECT_EQ(done.code, 0);
  const json j = json::parse(done.out);
  EXPECT_EQ(j["failed"], 0);
  EXPECT_EQ(j["checks"][0]["name"], "gemm");
  EXPECT_LE(j["checks"][0]["max"].get<double>(), 1);
}

TEST_F(Gauges, ValidateModelAndMiss) {
  const std::string golden_folder = golden("validate");
  const Done good = run({"validate", "--models-only", "--golden", golden_folder, "-t", "2"});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("frame 4"), HasSubstr("dB"), HasSubstr("transformer")));
  fs::copy(golden_folder, path("golden"), fs::copy_options::recursive);
  json changed = json::parse(read_text(path("golden/golden.json")));
  changed["generation"]["run"]["seed"] = 1;
  write("golden/golden.json", changed.dump());
  const Done miss = run({"validate", "--models-only", "--golden", "golden", "-m", model_path(), "--json"});
  EXPECT_EQ(miss.code, 10) << miss.out << miss.err;
  const json j = json::parse(miss.out);
  EXPECT_FALSE(j["ok"].get<bool>());
  EXPECT_EQ(j["failed"], 6);
}

TEST_F(Gauges, WrongValuesNameTheOption) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"validate", "--mode", "guess"}, "guess"},
      {{"validate", "--cases", "huge"}, "huge"},
      {{"validate", "--level", "warp"}, "--level"},
      {{"validate", "--ops-only", "--models-only"}, "--models-only"},
      {{"validate", "--ops-only", "--op", "frobnicate"}, "frobnicate"},
      {{"bench", "--ops-only", "--seconds", "0"}, "--seconds"},
      {{"bench", "--ops-only", "--threads", "5000"}, "--threads"},
      {{"bench", "--ops-only", "--level", "warp"}, "--level"},
      {{"bench", "--ops-only", "--cases", "huge"}, "--cases"},
      {{"doctor", "--level", "warp"}, "--level"},
      {{"doctor", "--threads", "-3"}, "--threads"},
      {generate({"x", "--level", "warp"}), "--level"},
      {generate({"x", "--step-cache", "7"}), "--step-cache"},
      {generate({"x", "--level", "none", "--dtype", "bf16"}), "--dtype"}};
  for (const auto& [args, says] : cases) {
    const Done done = run(args);
    EXPECT_EQ(done.code, 2) << testing::PrintToString(args) << done.err;
    EXPECT_THAT(done.err, HasSubstr(says)) << testing::PrintToString(args);
  }
  EXPECT_EQ(run({"validate", "--models-only", "--golden", "gone"}).code, 3);
  EXPECT_EQ(run({"compare", "gone.json", "gone.json"}).code, 3);
  write("bad.json", "[1, 2]");
  EXPECT_EQ(run({"compare", "bad.json", "bad.json"}).code, 4);
  EXPECT_EQ(run({"bench", "--ops-only", "--compare", "bad.json"}).code, 4)
      << "refused before anything is timed";
}

TEST_F(Gauges, BenchAndCompare) {
  const Done done =
      run({"bench", "--op", "rope", "--ops-only", "--seconds", "0.02", "-t", "1", "-o", "a.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("rope"), HasSubstr("roofline"), HasSubstr("GFLOP/s")));
  json a = json::parse(read_text(path("a.json")));
  ASSERT_FALSE(a["lines"].empty());
  EXPECT_THAT(run({"compare", "a.json", "a.json"}).out,
              testing::ContainsRegex("0 faster, [1-9] the same, 0 slower"));
  a["lines"][0]["spread"] = 0.0;
  write("a.json", a.dump());
  a["lines"][0]["median_us"] = a["lines"][0]["median_us"].get<double>() * 2;
  write("b.json", a.dump());
  EXPECT_EQ(run({"compare", "a.json", "b.json"}).code, 0);
  const Done slower = run({"compare", "a.json", "b.json", "--strict", "--json"});
  EXPECT_EQ(slower.code, 10);
  EXPECT_EQ(json::parse(slower.out)["lines"][0]["verdict"], "slower");
  EXPECT_EQ(json::parse(run({"compare", "b.json", "a.json", "--json"}).out)["lines"][0]["verdict"], "faster");
}

TEST_F(Gauges, BenchTimesAModelsStep) {
  const Done done = run({"bench", "--op", "model", "-m", model_path(), "-t", "1", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json j = json::parse(done.out);
  std::string ids;
  for (const auto& line : j["lines"]) ids += line["id"].get<std::string>() + "\n";
  EXPECT_THAT(ids,
              AllOf(HasSubstr("model:step"), HasSubstr("model:decode"), HasSubstr("model:text encoder")));
  EXPECT_GT(j["roofline"]["one_thread"]["f32_gflops"].get<double>(), 0);
}

// For a model that makes videos block by block, the blocks are timed by component, stored as a table and
// compared with a new measurement.
TEST_F(Gauges, BlocksAreTimedByComponent) {
  const WorldModel model({.world = WorldModel::world()});
  const std::string at = model.path().string();
  const Done done =
      run({"benchmark", "-m", at, "--blocks", "3", "-t", "2", "-o", "a.txt", "--profile", "t.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* row :
       {"block: attention", "block: norm", "block: feed-forward", "block: actions", "block: cache",
        "block: decode", "block: copy", "block: other", "action to first frame", "start to first frame",
        "P95 ms", "universal", "48x32", "window 6"})
    EXPECT_THAT(done.out, HasSubstr(row));
  EXPECT_THAT(done.out, testing::Not(HasSubstr("gemm:"))) << "no ops unless they are asked for";
  EXPECT_THAT(read_text(path("a.txt")), testing::StartsWith("# tachyscope bench: blocks"));
  EXPECT_THAT(read_text(path("t.json")), AllOf(HasSubstr("video block"), HasSubstr("keep keys, values")));
  const json j = json::parse(run({"bench", "-m", at, "--blocks", "2", "--steps", "1", "--window", "4",
                                  "--size", "32x16", "-t", "1", "--json"})
                                 .out);
  EXPECT_EQ(j["blocks"]["window"], 4);
  EXPECT_EQ(j["blocks"]["steps"], 1);
  EXPECT_EQ(j["blocks"]["blocks"], 2);
  EXPECT_EQ(j["blocks"]["plan_bytes"], j["blocks"]["held_bytes"]);
  double share = 0;
  for (const auto& line : j["lines"])
    if (line["id"].get<std::string>().starts_with("block: ")) share += line["share"].get<double>();
  EXPECT_NEAR(share, 1, 1e-6) << "components are all of a block";

  const Done same = run({"compare", "a.txt", "a.txt"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, AllOf(HasSubstr("improvement"), HasSubstr("+0.0%"), HasSubstr("0 slower")));
  const json now = json::parse(run({"compare", "a.txt", "-m", at, "--json"}).out);
  EXPECT_EQ(now["lines"][0]["id"], "block");
  EXPECT_TRUE(now["lines"][0]["improvement"].contains("p95"));
  for (const char* line : {"start to first frame", "cold start to first frame", "warm start to first frame"})
    EXPECT_THAT(read_text(path("a.txt")), HasSubstr(line));
  const Done unnamed = run({"compare", "a.txt"});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("--model"));
  EXPECT_EQ(run({"compare", "a.txt", "a.txt", "-m", at}).code, 2);
  EXPECT_EQ(
      run({"bench", "--ops-only", "--op", "rope:", "--cases", "tiny", "--seconds", "0.001", "-o", "b.txt"})
          .code,
      2)
      << "a table is of blocks";
}

// Self-Forcing's folder does not say that the model makes blocks; `--blocks` does.
TEST_F(Gauges, BlocksOfATextModel) {
  const Done done =
      run({"bench", "-m", model_path(), "--blocks", "2", "--size", "32x16", "--window", "3", "-t", "2"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("self-forcing"), HasSubstr("block: attention"),
                              testing::Not(HasSubstr("block: actions"))));
}

TEST_F(Gauges, CorrectnessOfRollouts) {
  const Done golden_ones = run({"correctness", "--models-only", "--golden", golden("causal"), "-t", "2"});
  EXPECT_EQ(golden_ones.code, 0) << golden_ones.out << golden_ones.err;
  EXPECT_THAT(golden_ones.out,
              AllOf(HasSubstr("rollout"), HasSubstr("templerun: velocities"), HasSubstr("8 checks")));
  const WorldModel model({.world = WorldModel::world()});
  const json j =
      json::parse(run({"validate", "--models-only", "-m", model.path().string(), "-t", "2", "--json"}).out);
  ASSERT_EQ(j["checks"].size(), 7u);
  EXPECT_THAT(j["checks"][2]["detail"].get<std::string>(), HasSubstr("asked: max < 0.01, mean < 0.001"));
}

TEST_F(Gauges, AllOfAModelThatMakesBlocks) {
  const WorldModel model({.world = WorldModel::world()});
  const Done done = run({"all", "-m", model.path().string(), "--golden", golden("causal"), "--blocks", "2",
                         "-t", "2", "-o", "a.txt"});
  EXPECT_THAT(done.out,
              AllOf(HasSubstr("15 checks"), HasSubstr("block: decode"), testing::Not(HasSubstr("gemm"))));
  EXPECT_TRUE(fs::exists(path("a.txt"))) << done.err;
  const Done compared = run({"all", "-m", model.path().string(), "--golden", golden("causal"), "--blocks",
                             "2", "-t", "2", "--compare", "a.txt", "--json"});
  std::istringstream out(compared.out);
  json checked, moved;
  out >> checked >> moved;
  EXPECT_EQ(checked["checks"].size(), 15u);
  EXPECT_EQ(moved["kind"], "comparison");
  EXPECT_EQ(moved["lines"][0]["id"], "block");
}

// The profile of a video that is made block by block tells how long its blocks took; so does a world's.
TEST_F(Gauges, ProfilesTellOfBlocks) {
  const Done done = run(generate({"x", "--block", "1", "--profile", "t.json", "-o", "p.mp4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("video block"), HasSubstr("blocks"), HasSubstr("feed-forward"),
                              HasSubstr("first frame"), HasSubstr("encode")));
  const WorldModel model({.world = WorldModel::world()});
  const std::vector<std::string> walk = {
      "world", "-m", model.path().string(), "-i", golden("image_pipeline/first.png"), "--frames", "21", "-t",
      "2",     "-o"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), walk.begin(), walk.end());
    return run(more);
  };
  const Done world = with({"a.gif", "--profile", "w.json", "--json"});
  ASSERT_EQ(world.code, 0) << world.err;
  std::istringstream lines(world.out);
  json last;
  for (std::string line; std::getline(lines, line);) last = json::parse(line);
  EXPECT_EQ(last["event"], "profile");
  EXPECT_EQ(last["blocks"][0]["component"], "block");
  EXPECT_EQ(last["blocks"][0]["blocks"], 2) << "of 9 and 12 frames";
  EXPECT_THAT(read_text(path("w.json")),
              AllOf(HasSubstr("encode image"), HasSubstr("actions"), HasSubstr("encode video")));
  ASSERT_EQ(with({"b.gif", "-q"}).code, 0);
  EXPECT_EQ(read_text(path("a.gif")), read_text(path("b.gif"))) << "profiling changes nothing";
}

TEST_F(Gauges, Doctor) {
  const Done text = run({"doctor"});
  EXPECT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out, AllOf(HasSubstr("CPU"), HasSubstr("oneDNN"), HasSubstr("extreme"), HasSubstr("gemm"),
                              HasSubstr("all work")));
  EXPECT_EQ(text.out.find("AVX3"), std::string::npos) << "only Highway calls AVX-512 so";
  const json& j = doctor();
  EXPECT_TRUE(j["ok"].get<bool>());
  EXPECT_EQ(j["model"].size(), 3u);
  for (const auto& stage : j["model"]) {
    EXPECT_GE(stage["ops"].size(), 3u) << stage;
    for (const auto& pick : stage["ops"]) EXPECT_EQ(pick["implementation"], "ref") << stage["stage"];
  }
  EXPECT_EQ(j["levels"].size(), 4u);
  for (const auto& op : j["ops"]) EXPECT_EQ(op["implementation"], "ref");
}

// Without a GPU, each command that is asked to use one says why there is none, before it does anything.
TEST_F(Gauges, WithoutAGpu) {
  const json& j = doctor();
  EXPECT_EQ(j["device"], "cpu");
  if (j["gpu"]["found"].get<bool>()) GTEST_SKIP() << "this machine has " << j["gpu"]["name"];
  EXPECT_FALSE(j["gpu"]["why_not"].get<std::string>().empty());
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"validate", "--ops-only"},
        {"bench", "--ops-only"},
        {"doctor"},
        {"all"},
        {"stage", "vae-decode", "-m", model_path(), "--in", golden("validate/vae-decode.safetensors"),
         "--out", "o.st"}}) {
    std::vector<std::string> with = args;
    with.insert(with.end(), {"--device", "cuda"});
    const Done done = run(with);
    EXPECT_EQ(done.code, 5) << args[0] << done.err;
    EXPECT_THAT(done.err, HasSubstr("--device cpu")) << args[0];
    EXPECT_TRUE(files().empty()) << args[0];
  }
}

// Each command that computes uses a GPU if it can; if there is none, the command does not mention it.
TEST_F(Gauges, TheDeviceIsLeftToTheMachine) {
  const std::string stage_out = "o.safetensors", latents = golden("validate/vae-decode.safetensors");
  std::vector<std::vector<std::string>> commands = {
      generate({"x", "-o", "a.gif", "--steps", "2"}),
      {"info", model_path()},
      {"stage", "vae-decode", "-m", model_path(), "--in", latents, "--out", stage_out},
      {"validate", "--ops-only", "--op", "rope:", "--cases", "tiny"},
      {"bench", "--ops-only", "--op", "rope:", "--cases", "tiny", "--seconds", "0.001"},
      {"doctor"}};
  device_ = "tpu";
  for (const auto& command : commands) {
    const Done done = run(command);
    EXPECT_EQ(done.code, 2) << command[0] << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("TACHY_DEVICE"), HasSubstr("'tpu'"))) << command[0];
  }
  commands.pop_back();  // doctor takes seconds, so it runs only once, below
  device_ = "cpu";
  for (const auto& command : commands) {
    const Done done = run(command);
    EXPECT_EQ(done.code, 0) << command[0] << done.err;
    EXPECT_THAT(done.err, testing::Not(HasSubstr("running on"))) << command[0];
  }
  const std::string frames = read_text(path("a.gif"));
  device_ = "";
  const bool gpu = json::parse(run({"doctor", "--json"}).out)["device"] != "cpu";
  for (const auto& command : commands) {
    const Done done = run(command);
    EXPECT_EQ(done.code, 0) << command[0] << done.err;
    if (gpu) EXPECT_THAT(done.err, HasSubstr("running on")) << command[0];
  }
  if (!gpu) EXPECT_EQ(read_text(path("a.gif")), frames);
}

TEST_F(Gauges, ProfileWritesATraceAndATable) {
  const Done done = run(generate({"x", "--profile", "t.json", "-o", "p.gif"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("P95"), HasSubstr("self-attention"), HasSubstr("res block"),
                              HasSubstr("by kind")));
  const json trace = json::parse(read_text(path("t.json")));
  EXPECT_GT(trace["traceEvents"].size(), 50u);
  const Done plain = run(generate({"x", "-o", "q.gif"}));
  EXPECT_EQ(read_text(path("p.gif")), read_text(path("q.gif"))) << "profiling changes nothing";
  const Done two = run(generate({"x", "-p", "y", "--profile", "two.json", "-o", "two.gif"}));
  ASSERT_EQ(two.code, 0) << two.err;
  const size_t table = two.out.find("by kind");
  ASSERT_NE(table, std::string::npos);
  EXPECT_EQ(two.out.find("by kind", table + 1), std::string::npos) << "only the last video is timed";
  EXPECT_THAT(read_text(path("two.json")), testing::Not(HasSubstr("load transformer")))
      << "it finds everything loaded";
  EXPECT_EQ(run(generate({"x", "--profile", "/proc/t.json", "-o", "r.gif"})).code, 6);
}

TEST_F(Gauges, LevelsAreRecordedAndRepeated) {
  ASSERT_EQ(run(generate({"x", "--level", "extreme", "--dtype", "f32", "--steps", "20", "-o", "a/"})).code,
            0);
  const json settings = json::parse(read_text(path("a/settings.json")));
  EXPECT_EQ(settings["level"], "extreme");
  EXPECT_EQ(settings["dtype"], "f32");
  EXPECT_GT(settings["step_cache"].get<double>(), 0);
  ASSERT_EQ(run({"generate", "--from", "a/settings.json", "-o", "b/", "-t", "1"}).code, 0);
  EXPECT_EQ(json::parse(read_text(path("b/settings.json"))), settings);
  ASSERT_EQ(run({"generate", "--from", "a/settings.json", "--level", "safe", "-o", "c/"}).code, 0);
  EXPECT_EQ(json::parse(read_text(path("c/settings.json")))["step_cache"], 0.0)
      << "a level given resets its parts";
}

}  // namespace
}  // namespace tachy::test
