// Runs every command with every model that ships, and with folders that lack a part. Each gives a result or a
// meaningful error, and never crashes. Parts that only some models have are where a program is likely to
// crash.
#include "binary.h"
#include "inspect/doctor.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const fs::path kModels = fs::path(TACHY_SOURCE_DIR) / "models";
constexpr const char* kShipped[] = {"sprites", "talker", "world"};

class Shipped : public CliTest {
 protected:
  // Checks a command's answer about a model: no signal, no internal error, and an explanation if it is
  // refused.
  Done expect_answer(const std::vector<std::string>& args) {
    Done done = run(args);
    std::string line;
    for (const std::string& word : args) line += word + " ";
    EXPECT_LT(done.code, 12) << line << done.err;
    EXPECT_NE(done.code, 1) << line << done.err;
    EXPECT_FALSE(done.code != 0 && done.out.empty() && done.err.empty()) << line;
    EXPECT_EQ((done.out + done.err).find("std::"), std::string::npos) << line << done.err;
    return done;
  }

  // Short forms of every command that opens a model.
  std::vector<std::vector<std::string>> commands_of(const std::string& model) {
    const std::string lora = golden("adapters/original.safetensors");
    return {{"info", model},
            {"info", model, "--json"},
            {"lora", lora, "-m", model},
            {"lora", lora + "@high", "-m", model},
            {"generate", "a cat", "-m", model, "--plan"},
            {"generate", "a cat", "-m", model, "--plan", "--lora", lora},
            {"talk", "--photo", photo_, "--audio", sound_, "-m", model, "--plan"},
            {"world", "-m", model, "--image", photo_, "--prompt", "a cat", "--frames", "5", "-o", "w.mp4"},
            {"vae", "encode", photo_, "-m", model, "--size", "32x32", "-o", "latents.safetensors"},
            {"convert", model, "out-" + std::to_string(++outputs_) + ".safetensors", "--to", "fp8"},
            {"stage", "transformer", "-m", model, "--in", lora, "--out", "s.safetensors"},
            {"stage", "text-encoder", "-m", model, "--in", lora, "--out", "s.safetensors"},
            {"stage", "vae-decoder", "-m", model, "--in", lora, "--out", "s.safetensors"}};
  }

  const std::string photo_ = kModels / "sprites/sheet.png";
  const std::string sound_ = kModels / "talker/example/speech.wav";
  int outputs_ = 0;
};

TEST_F(Shipped, EveryCommandAnswers) {
  for (const char* name : kShipped)
    for (const auto& command : commands_of(kModels / name)) expect_answer(command);
}

// Without anything to follow, the control blocks change no bit of sprites; with a depth video the clip is another one.
TEST_F(Shipped, SpritesEditFollows) {
  const auto latents = [&](const std::string& model, const std::string& name,
                           const std::vector<std::string>& more) {
    std::vector<std::string> args = {"generate",
                                     "an orange ring moves up",
                                     "-m",
                                     kModels / model,
                                     "--size",
                                     "64x64",
                                     "--frames",
                                     "9",
                                     "--steps",
                                     "2",
                                     "--seed",
                                     "3",
                                     "--save-latents",
                                     name,
                                     "-q",
                                     "-o",
                                     name + ".mp4"};
    args.insert(args.end(), more.begin(), more.end());
    const Done done = run(args);
    EXPECT_EQ(done.code, 0) << done.err;
    return read_text(folder_ / name);
  };
  const std::string depth = kModels / "sprites-edit/example/depth.mp4";
  const std::string plain = latents("sprites", "plain.safetensors", {});
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(plain,
            latents("sprites-edit", "none.safetensors", {"--control-video", depth, "--vace-strength", "0"}));
  EXPECT_NE(plain, latents("sprites-edit", "depth.safetensors", {"--control-video", depth}));
}

TEST_F(Shipped, LoraSaysWhatFitsAModelThatReadsNoText) {
  const Done done = run({"lora", golden("adapters/original.safetensors"), "-m", kModels / "world"});
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_THAT(done.out, HasSubstr("0 of 8 layers fit"));
}

// This checks what `doctor --model` adds to its self-test, which takes seconds.
TEST_F(Shipped, DoctorKnowsEveryModel) {
  for (const auto& [name, stage] : {std::pair<std::string, std::string>{"world", "world"},
                                    {"talker", "speech"},
                                    {"sprites", "denoise"}}) {
    const auto stages = model_plan(kModels / name, "safe", 2, "cpu", "").stages;
    const auto found = std::ranges::find(stages, stage, &StagePlan::name);
    ASSERT_NE(found, stages.end()) << name;
    EXPECT_FALSE(found->picks.empty()) << name;
    EXPECT_GT(found->flops, 0) << name;
  }
}

// Each folder has links to all of the model's files except one.
TEST_F(Shipped, FoldersThatLackAPartAreAnswered) {
  for (const char* name : kShipped) {
    for (const auto& left_out : fs::directory_iterator(kModels / name)) {
      const std::string file = left_out.path().filename();
      if (file == "README.md" || file == "golden" || file == "sheet.png" || file == "example" ||
          file == "heldout.json")
        continue;
      const fs::path folder = path(std::string(name) + "-without-" + file);
      fs::create_directory(folder);
      for (const auto& other : fs::directory_iterator(kModels / name))
        if (other.path().filename() != file)
          fs::create_symlink(other.path(), folder / other.path().filename());
      expect_answer({"info", folder});
      expect_answer({"lora", golden("adapters/original.safetensors"), "-m", folder});
      expect_answer({"generate", "a cat", "-m", folder, "--plan"});
    }
  }
}

}  // namespace
}  // namespace tachy::test
