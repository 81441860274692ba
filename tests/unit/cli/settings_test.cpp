// Tests the parts of a run's settings besides its request: fields that used to be variables, and the
// environment. A run that is repeated or resumed in another environment says so.
#include <memory>
#include <nlohmann/json.hpp>

#include "../pipelines/world_model.h"
#include "api/tachyscope.h"
#include "base/environment.h"
#include "binary.h"
#include "media/metadata.h"
#include "media/picture/image_reader.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kSprites = std::string(TACHY_SOURCE_DIR) + "/models/sprites";

class SettingsOfRuns : public CliTest {
 protected:
  // Sets a variable for the runs that start while it lives; the previous value is restored.
  struct Setting {
    Setting(const char* name, const char* value) : name(name) {
      if (const char* const old = std::getenv(name)) before = old;
      value ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Setting() { before.empty() ? unsetenv(name) : setenv(name, before.c_str(), 1); }
    Setting(const Setting&) = delete;
    const char* name;
    std::string before;
  };
  std::vector<std::string> short_run(const std::string& output, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"a red cat", "--steps", "1",  "--frames", "1",
                                   "--size",    "32x16",   "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    return generate(words);
  }
  json settings(const std::string& name) const { return json::parse(read_text(path(name))); }
  std::vector<std::string> again(const std::string& from) const {
    return {"generate", "--from", from, "-o", "again.png", "-t", "2"};
  }
  const Setting no_force_{"TACHY_FORCE", nullptr}, no_pace_{"TACHY_PACE", nullptr};
};

TEST_F(SettingsOfRuns, TheEnvironmentIsRecordedAndADifferentOneIsSaid) {
  {
    const Setting force("TACHY_FORCE", "gemm:ref"), log("TACHY_LOG", "plan"),
        fpmath("ONEDNN_DEFAULT_FPMATH_MODE", "strict");
    ASSERT_EQ(run(short_run("a.png")).code, 0);
    const json environment = settings("a.json").at("environment");
    EXPECT_EQ(environment.at("TACHY_FORCE"), "gemm:ref");
    EXPECT_EQ(environment.at("ONEDNN_DEFAULT_FPMATH_MODE"), "strict") << "oneDNN reads it, and rounds by it";
    EXPECT_FALSE(environment.contains("TACHY_LOG")) << "it changes no bits";
    EXPECT_EQ(json::parse(read_comment(path("a.png"))).at("environment"), environment);
    const Done same = run(again("a.json"));
    EXPECT_EQ(same.code, 0) << same.err;
    EXPECT_THAT(same.err, Not(HasSubstr("environment")));
  }
  const Done unset = run(again("a.json"));
  EXPECT_EQ(unset.code, 0) << unset.err;
  EXPECT_THAT(unset.err, AllOf(HasSubstr("--from: a.json: the environment was different"),
                               HasSubstr("TACHY_FORCE was gemm:ref and is not set now"),
                               HasSubstr("ONEDNN_DEFAULT_FPMATH_MODE was strict and is not set now")));
  EXPECT_FALSE(settings("again.json").contains("environment")) << "it is the new run's own";
  const Setting other("TACHY_FORCE", "rmsnorm:ref"), pace("TACHY_PACE", "off");
  EXPECT_THAT(run(again("a.png")).err, AllOf(HasSubstr("TACHY_FORCE was gemm:ref and is rmsnorm:ref now"),
                                             HasSubstr("TACHY_PACE was not set and is off now")));
}

// Variables that change no bits according to the list must indeed change none. The tests on a GPU are
// gpu_run_test.cpp, gpu_rounded_test.cpp and wan_dit_gpu_test.cpp.
TEST_F(SettingsOfRuns, VariablesOfSameBitsChangeNone) {
  const std::pair<const char*, const char*> values[] = {{"TACHY_GRAPHS", "off"},
                                                        {"TACHY_CUDA_OVERLAP", "0"},
                                                        {"TACHY_HUGE_PAGES", "0"},
                                                        {"TACHY_NORM_CODES", "0"},
                                                        {"TACHY_STRESS", "7"},
                                                        {"TACHY_LOG", "dispatch,plan,load"},
                                                        {"TACHY_ROUND_WEIGHTS", "device"},
                                                        {"WAN_ENABLE_FUSED_BLOCK", "0"},
                                                        {"WAN_FORCE_SDPA", "1"},
                                                        {"WAN_TORCH_COMPILE", "1"},
                                                        {"XDG_DATA_HOME", "/nowhere"},
                                                        {"AWS_ACCESS_KEY_ID", "a"},
                                                        {"AWS_SECRET_ACCESS_KEY", "b"},
                                                        {"AWS_SESSION_TOKEN", "c"},
                                                        {"AWS_REGION", "eu-central-1"},
                                                        {"AWS_ENDPOINT_URL", "http://127.0.0.1:1"},
                                                        {"TACHY_RANK_SECRET", "short"},
                                                        {"TACHY_RANK_GROUPS", "2"},
                                                        {"TACHY_RANK_OWN", "beside"},
                                                        {"TACHY_RANK_INTERFACE", "nowhere0"},
                                                        {"TACHY_RANK_SECONDS", "0"},
                                                        {"RANK", "1"},
                                                        {"WORLD_SIZE", "4"},
                                                        {"LOCAL_RANK", "1"},
                                                        {"LOCAL_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "nowhere"},
                                                        {"MASTER_PORT", "1"},
                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                        {"OMPI_COMM_WORLD_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                        {"PMI_RANK", "1"},
                                                        {"PMI_SIZE", "4"},
                                                        {"MPI_LOCALRANKID", "1"},
                                                        {"MPI_LOCALNRANKS", "2"},
                                                        {"PMIX_RANK", "1"},
                                                        {"PMIX_NAMESPACE", "a"},
                                                        {"SLURM_PROCID", "1"},
                                                        {"SLURM_NTASKS", "4"},
                                                        {"SLURM_LOCALID", "1"},
                                                        {"SLURM_JOB_ID", "7"},
                                                        {"SLURM_NODELIST", "a[1-4]"},
                                                        {"SLURM_STEP_NODELIST", "a[1-4]"},
                                                        {"JOB_COMPLETION_INDEX", "1"}};
  std::set<std::string_view> known;
  std::vector<std::unique_ptr<Setting>> set;
  const auto job = [&](const char* output) {
    return run(short_run(output, {"--frames", "5", "--math", "int8", "--size", "48x48"}));
  };
  ASSERT_EQ(job("a.mp4").code, 0);
  for (const auto& [name, value] : values)
    known.insert(name), set.push_back(std::make_unique<Setting>(name, value));
  for (const EnvironmentVariable& v : environment_variables())
    if (v.effect == Effect::same_bits) EXPECT_TRUE(known.contains(v.name)) << v.name << " is not tried here";
  const Done done = job("b.mp4");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_text(path("b.mp4")), read_text(path("a.mp4")));
}

TEST_F(SettingsOfRuns, AVariableOfAWrongValueIsRefused) {
  {
    const Setting log("TACHY_LOG", "plan,foo");
    const Done done = run({"info", kSprites});
    EXPECT_EQ(done.code, 2);
    EXPECT_THAT(done.err,
                AllOf(HasSubstr("TACHY_LOG: expected dispatch, plan, load"), HasSubstr("got 'foo'")));
  }
  {
    const Setting folder("TACHY_MODEL_DIR", "gone");
    const Done done = run({"generate", "x", "--plan"});
    EXPECT_EQ(done.code, 3);
    EXPECT_THAT(done.err, HasSubstr("TACHY_MODEL_DIR: gone is not a folder"));
    EXPECT_EQ(run({"info", kSprites}).code, 0) << "a run that names its model does not look there";
  }
  const Setting force("TACHY_FORCE", "attention:foo");
  const Done done = run(short_run("a.png"));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("TACHY_FORCE: attention has no implementation 'foo'"), HasSubstr("ref")));
}

TEST_F(SettingsOfRuns, AValueThatIsNoTextIsNoObstacle) {
  const Setting bytes("ONEDNN_DEFAULT_FPMATH_MODE", "a\xff");
  ASSERT_EQ(run(short_run("a.png")).code, 0);
  const Done done = run(again("a.json"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, Not(HasSubstr("environment")));
}

// The folder of models matters only to a run that names no model.
TEST_F(SettingsOfRuns, TheFolderOfModelsIsOfRunsThatNameNone) {
  const Setting folder("TACHY_MODEL_DIR", TACHY_SOURCE_DIR "/models");
  ASSERT_EQ(run(short_run("a.png")).code, 0);
  EXPECT_FALSE(settings("a.json").contains("environment"));
  ASSERT_EQ(
      run({"generate", "a red circle", "--steps", "1", "--frames", "1", "--size", "32x32", "-o", "b.png"})
          .code,
      0);
  EXPECT_EQ(settings("b.json").at("environment").at("TACHY_MODEL_DIR"), TACHY_SOURCE_DIR "/models");
}

// The device is a field, which --from follows, so nothing is said about the variable.
TEST_F(SettingsOfRuns, AVariableThatAFieldSpeaksForIsNoDifference) {
  ASSERT_EQ(run(short_run("a.png")).code, 0);
  EXPECT_EQ(settings("a.json").at("device"), "cpu");
  device_ = "";
  const Done done = run(again("a.json"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, Not(HasSubstr("environment")));
}

TEST_F(SettingsOfRuns, AnInterruptedRunSaysIt) {
  const std::vector<std::string> job = generate({"a red cat", "--size", "48x48", "--frames", "9", "--steps",
                                                 "400", "--state-every", "0", "-o", "cut.mp4"});
  {
    const Setting force("TACHY_FORCE", "rmsnorm:ref");
    const pid_t child = start(job);
    for (int i = 0; i < 10000 && !fs::exists(path("cut.mp4.resume")); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, SIGKILL);
    ASSERT_EQ(finish(child).code, 1000 + SIGKILL);
  }
  std::vector<std::string> rest = job;
  rest.emplace_back("--resume");
  const Setting pace("TACHY_PACE", "off");
  const pid_t child = start(rest);
  const auto says = [&] { return read_text(folder_.string() + ".err"); };
  for (int i = 0; i < 10000 && says().find("environment") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(child, SIGKILL);
  const Done done = finish(child);
  EXPECT_THAT(done.err, AllOf(HasSubstr("--resume: cut.mp4.resume"),
                              HasSubstr("TACHY_FORCE was rmsnorm:ref and is not set now"),
                              HasSubstr("TACHY_PACE was not set and is off now")));
}

TEST_F(SettingsOfRuns, ADamagedEnvironmentIsRefused) {
  ASSERT_EQ(run(short_run("a.png")).code, 0);
  const json good = settings("a.json");
  json many = json::object();
  for (int i = 0; i < 65; ++i) many[std::to_string(i)] = "x";
  for (const json& bad :
       {json("text"), json::array({"a"}), json{{"TACHY_ISA", 3}}, json{{"TACHY_ISA", nullptr}}, many}) {
    json j = good;
    j["environment"] = bad;
    write("bad.json", j.dump());
    const Done done = run(again("bad.json"));
    EXPECT_EQ(done.code, 4) << bad;
    EXPECT_THAT(done.err, AllOf(HasSubstr("--from"), HasSubstr("'environment'"))) << bad;
  }
}

// vae_math is now a field that settings hold and --from repeats.
TEST_F(SettingsOfRuns, VaeMathIsRepeated) {
  const auto sprites = [&](const std::string& output, std::vector<std::string> more) {
    more.insert(more.end(),
                {"-m", kSprites, "--steps", "1", "--frames", "1", "--size", "32x32", "-o", output});
    more.insert(more.begin(), {"generate", "a red circle"});
    return run(more);
  };
  ASSERT_EQ(sprites("plain.png", {}).code, 0);
  const Done done = sprites("codes.png", {"--vae-math", "fp8"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_FALSE(settings("plain.json").contains("vae_math")) << "settings of runs without it are as before";
  EXPECT_EQ(settings("codes.json").at("vae_math"), "fp8");
  const auto pixels = [&](const char* name) { return read_image(path(name)).rgb; };
  EXPECT_NE(pixels("codes.png"), pixels("plain.png"));
  ASSERT_EQ(run(again("codes.png")).code, 0);
  EXPECT_EQ(pixels("again.png"), pixels("codes.png"));
  std::vector<std::string> back = again("codes.json");
  back.insert(back.end(), {"--vae-math", "auto"});
  ASSERT_EQ(run(back).code, 0);
  EXPECT_EQ(pixels("again.png"), pixels("plain.png"));
  // The variable no longer exists.
  const Setting gone("TACHY_VAE_MATH", "fp8");
  ASSERT_EQ(sprites("variable.png", {}).code, 0);
  EXPECT_EQ(pixels("variable.png"), pixels("plain.png"));
}

TEST_F(SettingsOfRuns, WhereThereIsNoKernelForVaeMathTheRunIsRefused) {
  for (const auto& [gpu, code] : {std::pair("a100", 5), std::pair("l4", 0), std::pair("h100", 0)}) {
    const Done done = run({"generate", "x", "-m", kSprites, "--plan", "--gpu", gpu, "--vae-math", "fp8"});
    EXPECT_EQ(done.code, code) << gpu << ": " << done.err;
    if (code != 0) {
      EXPECT_THAT(done.err, AllOf(HasSubstr("--vae-math"), HasSubstr("8.9")));
    }
  }
  EXPECT_EQ(run({"generate", "x", "-m", kSprites, "--plan", "--gpu", "a100", "--vae-math", "int8"}).code, 0);
  EXPECT_EQ(run(short_run("a.png", {"--vae-math", "fp8"})).code, 5) << "its VAE has no such convolutions";
  EXPECT_EQ(run(short_run("a.png", {"--int8-keys", "all"})).code, 2) << "without attention in 8 bits";
  EXPECT_TRUE(files().empty());
}

// --from repeats the encoding of a file if the new one has the same format. In another format its numbers
// would mean something else.
TEST_F(SettingsOfRuns, TheEncodingIsRepeatedAndNoReasonNotToGoOn) {
  const auto from = [&](const char* output, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"generate", "--from", "a.mp4", "-o", output, "-t", "2"});
    return run(more);
  };
  ASSERT_EQ(run(short_run("a.mp4", {"--crf", "50", "--encode-speed", "slow", "--frames", "5"})).code, 0);
  const json encoding = {{"format", "mp4"}, {"crf", 50}, {"speed", "slow"}};
  EXPECT_EQ(settings("a.json").at("encoding"), encoding);
  ASSERT_EQ(from("b.mp4").code, 0);
  EXPECT_EQ(read_text(path("b.mp4")), read_text(path("a.mp4")));
  ASSERT_EQ(from("c.webm").code, 0);
  EXPECT_FALSE(settings("c.json").contains("encoding"));
  ASSERT_EQ(from("d.mp4", {"--crf", "10"}).code, 0);
  EXPECT_EQ(settings("d.json").at("encoding").at("crf"), 10);
  // The video is complete, but with another encoding it would not be.
  EXPECT_THAT(from("d.mp4", {"--crf", "10", "--resume"}).out, HasSubstr("complete already"));
  EXPECT_THAT(from("d.mp4", {"--crf", "11", "--resume"}).out, Not(HasSubstr("complete already")));
  ASSERT_EQ(run(short_run("e.mp4")).code, 0);
  EXPECT_FALSE(settings("e.json").contains("encoding")) << "settings of runs without it are as before";
  json bad = settings("a.json");
  for (const json& what :
       {json("x"), json{{"crf", 64}}, json{{"crf", "x"}}, json{{"speed", 3}}, json{{"format", 1}}}) {
    bad["encoding"] = what;
    write("bad.json", bad.dump());
    EXPECT_EQ(run(again("bad.json")).code, 4) << what;
  }
}

// A world's video also records everything that its pixels depend on.
TEST_F(SettingsOfRuns, OfAWorld) {
  const WorldModel model({.world = WorldModel::world()});
  const Setting force("TACHY_FORCE", "rmsnorm:ref");
  const Done done = run({"world", "-m", model.path().string(), "-i", golden("image_pipeline/first.png"), "-t",
                         "2", "--frames", "5", "--steps", "2", "--shift", "4", "--vae-math", "activations",
                         "-q", "-o", "walk.mp4"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json said = json::parse(read_comment(path("walk.mp4")));
  const std::pair<const char*, json> expected[] = {
      {"num_inference_steps", 2}, {"flow_shift", 4.0}, {"vae_math", "activations"}, {"level", "safe"},
      {"dtype", "f32"},           {"residual", "f32"}, {"device", "cpu"},           {"seed", 0}};
  for (const auto& [key, value] : expected) EXPECT_EQ(said.value(key, json()), value) << key;
  EXPECT_EQ(said.at("environment").at("TACHY_FORCE"), "rmsnorm:ref");
  EXPECT_EQ(said.at("image_sha256").get<std::string>().size(), 64u);
}

TEST_F(SettingsOfRuns, OfAVae) {
  const std::vector<std::string> more{"-m", kSprites, "-t", "2", "--vae-math", "fp8", "-q", "-o"};
  const auto vae = [&](std::vector<std::string> words, const char* output) {
    words.insert(words.begin(), "vae");
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back(output);
    const Done done = run(words);
    EXPECT_EQ(done.code, 0) << done.err;
  };
  vae({"encode", golden("image_pipeline/first.png"), "--size", "32x32"}, "l.safetensors");
  vae({"decode", "l.safetensors"}, "l.png");
  const json latents = json::parse(read_latents(path("l.safetensors")).about.at("settings")),
             frames = json::parse(read_comment(path("l.png")));
  for (const json& said : {latents, frames}) {
    EXPECT_EQ(said.at("vae_math"), "fp8");
    EXPECT_EQ(said.at("device"), "cpu");
  }
}

}  // namespace
}  // namespace tachy::test
