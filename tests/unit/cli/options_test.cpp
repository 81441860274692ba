// Tests options with wrong values: the exit code, the option's name, the value, and what would work.
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Options : public CliTest {};

TEST_F(Options, HelpAndVersion) {
  const Done version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out,
              testing::MatchesRegex("tachyscope [0-9]+\\.[0-9]+\\.[0-9]+( \\(commit [0-9a-f]{12}\\))?"
                                    "( \\(built for CPUs with [A-Z0-9-]+ alone\\))?\n"
                                    "kernels for GPUs: (none( \\(tachyscope-cuda13 brings them\\))?|CUDA "
                                    "1[0-9]\\.[0-9]+, for [0-9a-z -]+.*)\n"));
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"--help"}, {"generate", "--help"}, {"info", "--help"}, {"stage", "--help"}}) {
    const Done done = run(args);
    EXPECT_EQ(done.code, 0);
    EXPECT_THAT(done.out, HasSubstr("Usage"));
    EXPECT_THAT(done.err, IsEmpty());
  }
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("Exit codes"), HasSubstr("130")));
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({}).err, "tachyscope: a command is missing; tachyscope --help lists the commands\n");
  EXPECT_EQ(run({"convert", "a"}).err,
            "tachyscope: output is required; tachyscope convert --help-all says more\n");
  EXPECT_EQ(run({"generate", "x", "--steps", "many"}).err,
            "tachyscope: --steps: expected a whole number, got 'many'\n");
  EXPECT_THAT(run({"talk", "--audio", "a.wav"}).err, HasSubstr("tachyscope: --photo: a talking photo needs"));
  const Done unknown = run({"frobnicate"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("there is no command 'frobnicate'"));
  EXPECT_THAT(run({"generate", "x", "--nope"}).err, HasSubstr("--nope: there is no such option"));
  EXPECT_THAT(run({"generate", "a", "red", "cat"}).err, AllOf(HasSubstr("'red'"), HasSubstr("in quotes")));
}

TEST_F(Options, WrongValuesExitWith2) {
  struct Wrong {
    std::vector<std::string> args, says;
  };
  const Wrong cases[] = {
      {{"x", "--size", "100x100"}, {"100", "96", "112"}},
      {{"x", "--size", "big"}, {"--size", "big", "832x480"}},
      {{"x", "--size", "64x"}, {"--size", "64x"}},
      {{"x", "--size", "99999999999x16"}, {"--size"}},
      {{"x", "--width", "100"}, {"--width", "100", "96", "112"}},
      {{"x", "--height", "-16"}, {"--height", "-16"}},
      {{"x", "--frames", "80"}, {"--frames", "80", "77", "81"}},
      {{"x", "--frames", "0"}, {"--frames"}},
      {{"x", "--frames", "5.5"}, {"--frames", "5.5"}},
      {{"x", "--steps", "0"}, {"--steps", "0", "1 to 1000"}},
      {{"x", "--steps", "many"}, {"--steps", "many"}},
      {{"x", "--guidance", "nan"}, {"--guidance", "nan"}},
      {{"x", "--guidance", "inf"}, {"--guidance", "inf"}},
      {{"x", "--shift", "0"}, {"--shift"}},
      {{"x", "--fps", "nan"}, {"--fps"}},
      {{"x", "--fps", "0"}, {"--fps"}},
      {{"x", "--sampler", "foo"}, {"foo", "unipc", "euler", "dpm++"}},
      {{"x", "--grid", "foo"}, {"foo", "diffusers", "original"}},
      {{"x", "--rng", "foo"}, {"--rng", "foo", "cpu", "cuda"}},
      {{"x", "--rng", "cuda", "--rng-multiprocessors", "0"}, {"--rng-multiprocessors"}},
      {{"x", "--threads", "5000"}, {"--threads", "5000", "1024"}},
      {{"x", "--threads", "-1"}, {"--threads", "-1"}},
      {{"x", "--weights", "x"}, {"--weights", "'x'", "packed", "mapped"}},
      {{"x", "--crf", "99", "-o", "a.mp4"}, {"crf", "99", "51"}},
      {{"x", "--seed", "-2"}, {"--seed", "-2", "-1"}},
      {{"x", "--seed", "18446744073709551616"}, {"--seed"}},
      {{"x", "--seed", "1e3"}, {"--seed", "1e3"}},
      {{"x", "--max-sequence-length", "0"}, {"--max-sequence-length"}},
      {{"x", "-p", "y", "--save-latents", "l.safetensors"}, {"--save-latents", "2"}},
      {{"--prompt-file", "empty.txt"}, {"--prompt-file", "empty.txt"}},
      {{}, {"prompt"}},
      {{"x", "-o", "still.png"}, {"still.png", "5 frames"}},
  };
  write("empty.txt", "\n   \n# a comment\n");
  for (const Wrong& wrong : cases) {
    const Done done = run(generate(wrong.args));
    const std::string what = testing::PrintToString(wrong.args) + ": " + done.err;
    EXPECT_EQ(done.code, 2) << what;
    for (const std::string& text : wrong.says) EXPECT_THAT(done.err, HasSubstr(text)) << what;
    EXPECT_THAT(done.out, IsEmpty()) << what;
  }
  EXPECT_THAT(files(), testing::ElementsAre("empty.txt")) << "a refused run leaves nothing behind";
}

TEST_F(Options, MissingFilesExitWith3) {
  const Done model = run({"generate", "x", "-m", "no/such/model"});
  EXPECT_EQ(model.code, 3);
  EXPECT_THAT(model.err, HasSubstr("no/such/model"));
  fs::create_directory(path("hollow"));
  EXPECT_EQ(run({"generate", "x", "-m", "hollow"}).code, 3);
  EXPECT_EQ(run({"info", "hollow"}).code, 3);
  const Done from = run(generate({"--from", "gone.json"}));
  EXPECT_EQ(from.code, 3);
  EXPECT_THAT(from.err, AllOf(HasSubstr("--from"), HasSubstr("gone.json")));
  const Done prompts = run(generate({"--prompt-file", "gone.txt"}));
  EXPECT_EQ(prompts.code, 3);
  EXPECT_THAT(prompts.err, AllOf(HasSubstr("--prompt-file"), HasSubstr("gone.txt")));
  EXPECT_EQ(run(generate({"x", "--init-latents", "gone.safetensors"})).code, 3);
}

TEST_F(Options, DamagedSettingsNameTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"tachyscope":"0","prompt":"a","seed":"z"})", "seed"},
      {R"({"tachyscope":"0","prompt":"a","seed":-5})", "seed"},
      {R"({"tachyscope":"0","prompt":7})", "prompt"},
      {R"({"tachyscope":"0","prompt":"a","num_frames":1e30})", "num_frames"},
      {R"({"tachyscope":"0","prompt":"a","width":4294967328})", "width"},
      {R"({"tachyscope":"0","prompt":"a","guidance_scale":[]})", "guidance_scale"},
      {R"({"tachyscope":"0","prompt":"a","guidance_scale_2":"3"})", "guidance_scale_2"},
      {R"({"tachyscope":"0","prompt":"a","stepz":3})", "'stepz' (the file is of version 0"},
      {R"({"tachyscope":"0","prompt":"a","steps":3})", "near: num_inference_steps"},
      {R"({"tachyscope":"0","prompt":"a",)", "bad.json"}};
  for (const auto& [text, key] : cases) {
    write("bad.json", text);
    const Done done = run(generate({"--from", "bad.json"}));
    EXPECT_EQ(done.code, 4) << text << done.err;
    EXPECT_THAT(done.err, HasSubstr(key));
  }
  write("other.json", R"({"name":"not settings"})");
  EXPECT_EQ(run(generate({"--from", "other.json"})).code, 2);
  const std::pair<const char*, const char*> others[] = {
      {R"({"prompt":"a"})", "--from: other.json does not hold the settings of a run: it has no 'tachyscope'"},
      {R"({"tachyscope":"0"})", "it has no 'prompt'"},
      {R"(["a"])", "names and values in braces"},
      {R"({"world":"universal","prompt":""})", "holds the settings of a world"}};
  for (const auto& [text, reason] : others) {
    write("other.json", text);
    const Done done = run(generate({"--from", "other.json"}));
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_THAT(done.err, HasSubstr(reason));
  }
}

TEST_F(Options, FilesOfAnotherKindNameTheOption) {
  write("words.txt", "a cat\nanother cat, with more words than a picture has\n");
  for (const std::string option : {"--from", "--image", "--video"}) {
    const Done done = run(generate({"x", option, "words.txt"}));
    EXPECT_EQ(done.code, 4) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr(option + ": words.txt"), HasSubstr("expected a")));
  }
  ASSERT_EQ(run(generate({"x", "--size", "32x32", "--frames", "9", "--steps", "1", "-o", "cut.mp4"})).code,
            0);
  fs::resize_file(path("cut.mp4"), fs::file_size(path("cut.mp4")) * 2 / 3);
  const Done cut = run(generate({"x", "--frames", "9", "--steps", "2", "--video", "cut.mp4"}));
  EXPECT_EQ(cut.code, 4) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("--video: cut.mp4: "));
}

TEST_F(Options, FilesOfAServerNameTheOption) {
  write("keys", "hello\n");
  fs::permissions(path("keys"), fs::perms::owner_read | fs::perms::owner_write);
  const Done keys = run({"serve", "--keys", "keys", "--files", "mine"});
  EXPECT_EQ(keys.code, 2);
  EXPECT_THAT(keys.err, HasSubstr("--keys: keys: line 1: expected NAME"));
  fs::create_directory(path("shared"));
  write("shared/files-id", "");
  const Done files = run({"serve", "--files", "shared"});
  EXPECT_EQ(files.code, 6);
  EXPECT_THAT(files.err, HasSubstr("--files: shared: servers with a database share this folder"));
}

TEST_F(Options, TruncatedWeightsNameFileAndOffset) {
  fs::copy(model_path(), path("model"), fs::copy_options::recursive);
  const auto file = path("model/transformer/diffusion_pytorch_model.safetensors");
  fs::resize_file(file, fs::file_size(file) - 100);
  const Done done = run({"generate", "x", "-m", "model"});
  EXPECT_EQ(done.code, 4) << done.err;
  EXPECT_THAT(done.err, HasSubstr("transformer/diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(done.err, testing::ContainsRegex("[0-9]+"));
  EXPECT_EQ(run({"info", "model"}).code, 4);
}

TEST_F(Options, UnwritablePlacesAreFoundBeforeDenoising) {
  fs::create_directory(path("taken.mp4"));
  fs::create_directory(path("beside.json"));
  const std::vector<std::string> cases[] = {{"-o", "nowhere/x.mp4"},
                                            {"-o", "/proc/x.mp4"},
                                            {"-o", "/proc/"},
                                            {"-o", "/sys/kernel/x.gif"},
                                            {"-o", "beside.mp4"},
                                            {"-o", "a.mp4", "--save-latents", "nowhere/l.safetensors"},
                                            {"-o", "a.mp4", "--preview", "/proc/p.png"}};
  for (auto args : cases) {
    args.insert(args.begin(), {"x", "--json"});
    const Done done = run(generate(args));
    EXPECT_EQ(done.code, 6) << testing::PrintToString(args) << done.err;
    EXPECT_THAT(done.out, testing::Not(HasSubstr("denoise"))) << testing::PrintToString(args);
    EXPECT_THAT(done.err, testing::Not(IsEmpty()));
  }
  EXPECT_THAT(files(), testing::ElementsAre("beside.json", "taken.mp4"));
}

TEST_F(Options, InfoSaysOneFrameInTheSingular) {
  EXPECT_THAT(run({"info", model_path(), "--frames", "1"}).out, HasSubstr(", 1 frame: peak "));
}

TEST_F(Options, InfoKnowsBothLayouts) {
  for (const bool original : {false, true}) {
    const Done done = run({"info", model_path(original)});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.out, AllOf(HasSubstr("text-to-video"),
                                HasSubstr(original ? "original layout" : "diffusers layout"),
                                HasSubstr("bf16"), HasSubstr("peak")));
    const Done json = run({"info", "-m", model_path(original), "--json", "-W", "64", "-H", "32", "-f", "9"});
    EXPECT_EQ(json.code, 0);
    const auto parsed = nlohmann::json::parse(json.out);
    EXPECT_EQ(parsed["components"].size(), 3u);
    EXPECT_GT(parsed["peak_bytes"].get<uint64_t>(), 0u);
    EXPECT_EQ(parsed["components"][1]["options"]["layers"], "2");
  }
  EXPECT_EQ(run({"info", model_path(), "-W", "65"}).code, 2);
}

}  // namespace
}  // namespace tachy::test
