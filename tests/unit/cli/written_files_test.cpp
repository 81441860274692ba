// Tests files that people write, in the encodings of their editors, and prompts that are too long.
#include <nlohmann/json.hpp>

#include "binary.h"
#include "cli/generate_options.h"
#include "cli/world_actions.h"
#include "jobs/settings.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kMark = "\xEF\xBB\xBF";

// Returns ASCII text as UTF-16 with its byte order mark.
std::string utf16(const std::string& text, bool big = false) {
  std::string out = big ? "\xFE\xFF" : "\xFF\xFE";
  for (const char c : text) big ? (out += '\0', out += c) : (out += c, out += '\0');
  return out;
}

class WrittenFiles : public CliTest {};

TEST_F(WrittenFiles, PromptFilesOfEveryEditor) {
  const json encodings = json::parse(read_text(golden("text/encodings.json")));
  for (const json& c : encodings["read"]) {
    cli::GenerateOptions o;
    o.prompt_file = golden("text/encodings/" + c["file"].get<std::string>());
    std::vector<std::string> want;
    for (const std::string line : c["lines"])
      if (!line.empty() && line[0] != '#') want.push_back(line);
    EXPECT_EQ(cli::all_prompts(o), want) << c["file"];
  }
  for (const json& c : encodings["refused"]) {
    const std::string file = golden("text/encodings/" + c["file"].get<std::string>());
    const Done done = run(generate({"--prompt-file", file, "--plan"}));
    EXPECT_EQ(done.code, 4) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("--prompt-file"), HasSubstr(file), HasSubstr("line"),
                                HasSubstr("save it as UTF-8")));
  }
}

TEST_F(WrittenFiles, SettingsOfEveryEditor) {
  const std::string settings = "{\r\n \"tachyscope\": \"0\",\r\n \"prompt\": \"a cat\", \"seed\": 7\r\n}\r\n";
  for (const std::string& text : {settings, kMark + settings, utf16(settings), utf16(settings, true)}) {
    write("run.json", text);
    const jobs::RunSettings read = jobs::read_settings(path("run.json").string());
    EXPECT_EQ(read.request.prompt, "a cat");
    EXPECT_EQ(read.request.seed, 7u);
  }
  const std::tuple<const char*, const char*, const char*> mistakes[] = {
      {"{\"tachyscope\": \"0\",\n \"prompt\": \"a\",\n}", "line 3, column 1", "a comma before"},
      {"{\"tachyscope\": \"0\",\n \"prompt\": 'a'}", "line 2, column 12", "double quotes"},
      {"{\"tachyscope\": \"0\", \"prompt\": \"a\", \"seed\": 1e999}", "run.json", "number overflow"},
      {"{\"tachyscope\": \"0\", \"prompt\": \"\xC4\xE3\"}", "line 1, byte 32", "not UTF-8"},
      {"", "run.json", "has no settings"}};
  for (const auto& [text, place, reason] : mistakes) {
    write("run.json", text);
    const Done done = run(generate({"--from", "run.json", "--plan"}));
    EXPECT_EQ(done.code, *text ? 4 : 2) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("--from: run.json"), HasSubstr(place), HasSubstr(reason),
                                Not(HasSubstr("exception"))));
  }
}

TEST_F(WrittenFiles, ScriptsAndConfigsWithAMark) {
  const std::string script = R"({"fps": 10, "actions": [{"frames": 9, "keys": ["W"]}]})";
  WorldInfo info;
  info.keys = {"W"};
  for (const std::string& text : {kMark + script, utf16(script)}) {
    write("walk.json", text);
    EXPECT_EQ(cli::read_world_script(path("walk.json"), info).frames(), 9);
  }
  fs::copy(model_path(), path("model"), fs::copy_options::recursive);
  for (const char* config : {"model/model_index.json", "model/transformer/config.json"})
    write(config, kMark + read_text(path(config)));
  EXPECT_EQ(run({"info", "model"}).code, 0);
  write("model/transformer/config.json", "{\n \"in_channels\": 16,\n}");
  EXPECT_THAT(run({"info", "model"}).err,
              AllOf(HasSubstr("config.json: line 3, column 1"), HasSubstr("a comma before")));
}

// A prompt of the largest possible length causes no message; for a longer one, the dropped part is reported
// once.
TEST_F(WrittenFiles, LongPromptsSayWhatIsDropped) {
  const auto plan = [&](const std::string& prompt, std::vector<std::string> more) {
    more.insert(more.begin(), {prompt, "--plan", "--json"});
    const Done done = run(generate(more));
    EXPECT_EQ(done.code, 0) << done.err;
    return done;
  };
  const auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  const std::string prompt = "a red cat walks over the hill";
  const json all = json::parse(plan(prompt, {"--max-sequence-length", "1"}).out)["dropped_tokens"]["prompt"];
  const int tokens = all["tokens"];
  ASSERT_GT(tokens, 6);
  EXPECT_EQ(all["dropped"], tokens);
  EXPECT_EQ(all["words"], prompt);
  const Done exact = plan(prompt, {"-n", prompt, "--max-sequence-length", std::to_string(tokens + 1)});
  EXPECT_EQ(exact.err, "");
  EXPECT_FALSE(json::parse(exact.out).contains("dropped_tokens"));
  const Done over =
      plan(prompt, {"-n", prompt, "--max-sequence-length", std::to_string(tokens), "-s", "1", "-s", "2"});
  EXPECT_THAT(over.err,
              AllOf(HasSubstr(fmt::format(
                        "--prompt: the last 1 of the {} tokens of \"a red cat walks over…\"", tokens)),
                    HasSubstr("--negative-prompt: the last 1 of"), HasSubstr("from \"hill\" on"),
                    HasSubstr("give the same video")));
  EXPECT_EQ(count(over.err, "warning"), 2u) << "once for each text: " << over.err;
  EXPECT_EQ(plan(prompt, {"-n", prompt, "--max-sequence-length", std::to_string(tokens), "--guidance", "1"})
                .err.find("negative"),
            std::string::npos)
      << "a negative prompt that nothing reads loses nothing";
}

}  // namespace
}  // namespace tachy::test
