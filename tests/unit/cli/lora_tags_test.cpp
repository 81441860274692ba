// Tests tags of LoRAs in prompts, by the rules of stable-diffusion.cpp: what counts as a tag, what its name
// finds, and which request it becomes a part of.
#include "cli/lora_tags.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "binary.h"
#include "cli/generate_job.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

using cli::take_lora_tags;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class LoraTags : public CliTest {
 protected:
  // Writes a LoRA with a pair for one layer of the tiny model.
  void put(const std::string& name) const {
    fs::create_directories(path(name).parent_path());
    std::vector<float> down(2 * 24, 0.5f), up(24 * 2, 0.25f);
    for (size_t i = 0; i < down.size(); ++i) down[i] = static_cast<float>(i % 5) - 2;
    const std::string layer = "transformer.blocks.0.attn1.to_v";
    write_safetensors(path(name), {{layer + ".lora_A.weight", Tensor(down.data(), DType::f32, {2, 24})},
                                   {layer + ".lora_B.weight", Tensor(up.data(), DType::f32, {24, 2})}});
  }
  Error refused(const cli::GenerateOptions& o) const {
    try {
      (void)cli::make_jobs(o);
    } catch (const Error& e) {
      return e;
    }
    return {ErrorCode::internal, "no error"};
  }
  cli::GenerateOptions options(std::vector<std::string> prompts) const {
    cli::GenerateOptions o;
    o.prompts = std::move(prompts), o.model = model_path(), o.lora_dir = path("loras").string();
    return o;
  }
};

TEST_F(LoraTags, AreTakenOutOfThePrompt) {
  const auto [prompt, tags] =
      take_lora_tags("a<lora:fur:0.8> lovely <lora:|high_noise|my light 1.1:-1e-1> cat<lora:x:+2>");
  EXPECT_EQ(prompt, "a lovely cat");
  ASSERT_EQ(tags.size(), 3u);
  EXPECT_EQ(tags[0].name, "fur");
  EXPECT_EQ(tags[0].weight, 0.8);
  EXPECT_FALSE(tags[0].high_noise);
  EXPECT_EQ(tags[1].name, "my light 1.1");
  EXPECT_EQ(tags[1].weight, -0.1);
  EXPECT_TRUE(tags[1].high_noise);
  EXPECT_EQ(tags[2].weight, 2);
  EXPECT_EQ(take_lora_tags("<lora:x:1>").prompt, "");
  for (const std::string plain : {"", "a  cat ", "a < b: c > d", "lora:x:1", "<b>x</b>", "<lora", "1 <2"}) {
    EXPECT_EQ(take_lora_tags(plain).prompt, plain) << "what has no tag is left as it is";
    EXPECT_TRUE(take_lora_tags(plain).tags.empty());
  }
}

TEST_F(LoraTags, WhatIsNoWholeTagIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"a <lora:x>", "<lora:x> has no weight"},
      {"a <lora:x:abc> b", "<lora:x:abc>: expected a weight"},
      {"<lora:x:>", "expected a weight"},
      {"<lora:x:0.5:0.5>", "expected a weight"},
      {"<lora:x:nan>", "expected a weight"},
      {"<lora:x:101>", "-100 to 100"},
      {"<lora::1>", "<lora::1> has no name"},
      {"<lora:|high_noise|:1>", "has no name"},
      {"<lora:|low_noise|x:1>", "only |high_noise| may stand"},
      {"<LoRA:x:1>", "small letters"},
      {"a <lora:x:1", "no closing '>'"},
      {"<lo<lora:x:1>ra:y:1>", "a tag within a tag"}};
  for (const auto& [prompt, says] : cases) {
    try {
      (void)take_lora_tags(prompt);
      ADD_FAILURE() << prompt;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << prompt;
      EXPECT_THAT(e.message(), HasSubstr(says)) << prompt;
    }
  }
}

TEST_F(LoraTags, NamesAreThoseOfTheFolder) {
  for (const char* name : {"fur.safetensors", "far.pt", "two.pt", "two.safetensors", "notes.txt"})
    fs::create_directories(path("loras")), write(std::string("loras/") + name, "");
  fs::create_directories(path("loras/folder.safetensors"));
  write("outside.safetensors", "");
  const auto loras = [&](const std::string& prompt) {
    return cli::make_jobs(options({prompt}))[0].settings.request.loras;
  };
  const std::string dir = path("loras").string();
  EXPECT_THAT(loras("a<lora:fur:0.5>"), ElementsAre(dir + "/fur.safetensors:0.5"));
  EXPECT_THAT(loras("a<lora:far.pt:1>"), ElementsAre(dir + "/far.pt:1"));
  EXPECT_THAT(loras("a<lora:two.pt:1>"), ElementsAre(dir + "/two.pt:1"));
  EXPECT_THAT(loras("<lora:fur:0.5><lora:far:1>b<lora:fur:0.25>"),
              ElementsAre(dir + "/fur.safetensors:0.75", dir + "/far.pt:1"));
  EXPECT_EQ(refused(options({"<lora:two:1>"})).code(), ErrorCode::invalid_argument);
  for (const char* name : {"fir", "notes", "folder", "../outside", "../outside.safetensors", "Fur", "fur ",
                           "..", "/etc/passwd"}) {
    const Error e = refused(options({std::string("<lora:") + name + ":1>"}));
    EXPECT_EQ(e.code(), ErrorCode::not_found) << name;
    EXPECT_THAT(e.message(),
                AllOf(HasSubstr("--lora-dir"), HasSubstr(name), HasSubstr("near: "), HasSubstr("fur")));
  }
  cli::GenerateOptions o = options({"<lora:" + dir + "/fur.safetensors:1>"});
  EXPECT_EQ(refused(o).code(), ErrorCode::not_found);
  o.lora_dir.clear(), o.prompts = {"<lora:fur:1>"};
  EXPECT_EQ(refused(o).code(), ErrorCode::invalid_argument);
  EXPECT_THAT(refused(o).message(), AllOf(HasSubstr("--lora-dir"), HasSubstr("<lora:fur:1>")));
}

// A prompt without tags in the same file gets no LoRA, and a model with two experts gives each tag its own
// expert.
TEST_F(LoraTags, EachPromptHasItsOwn) {
  fs::create_directories(path("loras"));
  write("loras/fur.safetensors", ""), write("loras/light.safetensors", "");
  write("prompts.txt",
        "\xEF\xBB\xBF# all\r\na cat<lora:fur:1>\r\na dog\r\na cow<lora:|high_noise|light:1><lora:fur:2>\r\n");
  for (const std::string& from : {model_path(), golden("experts/t2v/diffusers")})
    fs::copy(from, path("model"), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  cli::GenerateOptions o = options({});
  o.prompt_file = path("prompts.txt").string(), o.model = path("model").string();
  const auto jobs = cli::make_jobs(o);
  const std::string dir = path("loras").string();
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].settings.request.prompt, "a cat");
  EXPECT_THAT(jobs[0].settings.request.loras, ElementsAre(dir + "/fur.safetensors:1@low"));
  EXPECT_THAT(jobs[1].settings.request.loras, testing::IsEmpty());
  EXPECT_THAT(jobs[2].settings.request.loras,
              ElementsAre(dir + "/light.safetensors:1@high", dir + "/fur.safetensors:2@low"));
}

TEST_F(LoraTags, AreTheSameVideoAsTheOption) {
  put("loras/fur.safetensors");
  const auto frames = [&](std::vector<std::string> args, const std::string& name) {
    args.insert(args.end(), {"--steps", "1", "--save-latents", name + ".safetensors", "-o", name + ".mp4"});
    const Done done = run(args);
    EXPECT_EQ(done.code, 0) << done.err;
    return read_text(path(name + ".safetensors"));
  };
  const std::string tagged = frames(generate({"a <lora:fur:0.5> cat", "--lora-dir", "loras"}), "tag");
  EXPECT_EQ(tagged, frames(generate({"a cat", "--lora", "loras/fur.safetensors:0.5"}), "option"));
  EXPECT_NE(tagged, frames(generate({"a cat"}), "none"));
  const json settings = json::parse(read_text(path("tag.json")));
  EXPECT_EQ(settings["prompt"], "a cat");
  EXPECT_EQ(settings["loras"], json::array({"loras/fur.safetensors:0.5"}));
  EXPECT_EQ(tagged, frames({"generate", "--from", "tag.json"}, "again"));
  // Tags of a new prompt replace the settings' LoRAs; a prompt without tags keeps them.
  EXPECT_EQ(frames({"generate", "--from", "tag.json", "a cat<lora:fur:1>", "--lora-dir", "loras"}, "more"),
            frames(generate({"a cat", "--lora", "loras/fur.safetensors:1"}), "one"));
}

TEST_F(LoraTags, CountInPromptsAlone) {
  fs::create_directories(path("loras"));
  const Done negative = run(generate({"a cat", "-n", "dull <lora:fur:1>", "--plan"}));
  EXPECT_EQ(negative.code, 0) << negative.err;
  EXPECT_THAT(negative.err, AllOf(HasSubstr("--negative-prompt"), HasSubstr("read as text")));
  write("run.json", R"({"tachyscope": "0", "prompt": "text of a <lora:page:1>"})");
  EXPECT_EQ(run(generate({"--from", "run.json", "--plan"})).code, 0) << "what a program asked for is text";
  const Done world = run({"world", "a cat <lora:fur:1>", "-o", "a.mp4"});
  EXPECT_EQ(world.code, 2);
  EXPECT_THAT(world.err, AllOf(HasSubstr("--prompt"), HasSubstr("<lora:fur:1>")));
}

}  // namespace
}  // namespace tachy::test
