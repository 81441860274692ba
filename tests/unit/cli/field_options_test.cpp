// Tests the command line's side of the tables of fields: every field has a spelling that messages use,
// options reach the request, and settings preserve every field.
#include "cli/field_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "api/fields.h"
#include "cli/generate_options.h"
#include "jobs/settings.h"

namespace tachy::cli {
namespace {

using jobs::read_settings;
using jobs::RunSettings;
using jobs::to_json;
using nlohmann::json;

// Returns a value of the field that is not its default: the last choice, the range's end, or any value.
template <class T>
T other_value(const RequestField& field) {
  const auto* choices = std::get_if<Choices>(&field.allowed);
  const auto* range = std::get_if<Range>(&field.allowed);
  if constexpr (std::is_same_v<T, std::string>)
    return choices ? std::string(choices->back()) : fmt::format("a \"{}\" …", field.name);
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return T{"a.safetensors:0.5", "[b].safetensors@high"};
  else if constexpr (std::is_same_v<T, uint64_t>)
    return ~uint64_t{0};
  else
    return static_cast<T>(range ? range->most : 3);
}

template <class T>
void set_other(const RequestField& field, T& member) {
  member = other_value<T>(field);
}
template <class T>
void set_other(const RequestField& field, std::optional<T>& member) {
  member = other_value<T>(field);
}

// Returns a request in which all fields differ from those of a new one.
VideoRequest other_request() {
  VideoRequest request;
  for (const RequestField& field : request_fields())
    std::visit([&](auto member) { set_other(field, request.*member); }, field.member);
  return request;
}

void expect_equal(const VideoRequest& a, const VideoRequest& b, bool equal = true) {
  for (const RequestField& field : request_fields())
    std::visit([&](auto member) { EXPECT_EQ(a.*member == b.*member, equal) << field.name; }, field.member);
}

TEST(FieldOptions, EveryFieldHasASpellingOfItsOwn) {
  std::set<std::string_view> known, spellings;
  for (const FieldOption& option : request_options()) {
    EXPECT_TRUE(known.insert(option.field).second) << option.field;
    EXPECT_TRUE(find_field(request_fields(), option.field) || find_field(request_inputs(), option.field))
        << option.field << " is no field of a request";
    EXPECT_THAT(std::string(option_of(option.field)), testing::StartsWith("--"));
    EXPECT_TRUE(spellings.insert(option_of(option.field)).second) << option.field;
  }
  EXPECT_EQ(known.size(), request_fields().size() + request_inputs().size());
  // The command line decides these options itself.
  const std::set<std::string_view> decided = {"keep_loaded", "graphs", "idle_seconds"};
  for (const EngineField& field : engine_fields())
    if (!decided.contains(field.name)) {
      EXPECT_TRUE(spellings.insert(option_of(field.name)).second) << field.name;
    }
  EXPECT_EQ(option_of("frobnicate"), "");
  EXPECT_EQ(option_of("max_text_tokens"), "--max-sequence-length");
  EXPECT_EQ(option_of("seed"), "--seed");
}

// A field without a spelling would show users a name in backticks that no option has. Callers over HTTP and in C read
// the names of fields and of parameters, so their own files are left out.
TEST(FieldOptions, EveryFieldThatMessagesNameHasASpelling) {
  static const std::regex text("\"(?:\\\\.|[^\"\\\\])*\""), name("`([a-z][a-z_0-9]*)`");
  const std::set<std::string> over_http = {"http", "queue", "workers", "web_api"};
  int named = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(TACHY_SOURCE_DIR "/src")) {
    if (file.path().extension() != ".cpp" && file.path().extension() != ".h") continue;
    const auto below_src = file.path().lexically_relative(TACHY_SOURCE_DIR "/src");
    if (over_http.contains(below_src.begin()->string())) continue;
    if (below_src.generic_string().starts_with("api/c_")) continue;
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      if (line.find('`') == line.npos) continue;
      line.resize(std::min(line.size(), line.find("//")));
      for (std::sregex_iterator t(line.begin(), line.end(), text), end; t != end; ++t) {
        const std::string words = t->str();
        for (std::sregex_iterator n(words.begin(), words.end(), name); n != end; ++n, ++named)
          EXPECT_NE(option_of(n->str(1)), "") << file.path() << ": " << line;
      }
    }
  }
  EXPECT_GT(named, 50);
}

class Settings : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  RunSettings read(const std::string& text) const {
    std::ofstream(file_) << text;
    return read_settings(file_.string());
  }

  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / fmt::format("tachyscope-settings-{}.json", getpid());
};

TEST_F(Settings, CarryEveryFieldThereAndBack) {
  RunSettings settings{.request = other_request()};
  expect_equal(settings.request, VideoRequest(), false);
  settings.request.image = std::make_shared<Picture>();  // otherwise image_fit would not matter
  settings.request.speech = std::make_shared<Speech>();  // otherwise audio_guidance would not matter
  settings.request.video = std::make_shared<Footage>();  // otherwise strength would not matter
  settings.request.speech_2 = settings.request.speech;   // otherwise speakers would not matter
  const json j = to_json(settings);
  EXPECT_EQ(j.size(), request_fields().size() + 1) << j.dump(2);
  for (const RequestField& field : request_fields()) EXPECT_TRUE(j.contains(field.key)) << field.key;
  expect_equal(read(j.dump()).request, settings.request);
}

TEST_F(Settings, LeaveOutWhatDoesNotMatter) {
  RunSettings settings{.request = other_request()};
  settings.request.rng = "cpu";
  const json j = to_json(settings);
  EXPECT_FALSE(j.contains("rng_multiprocessors"));
  EXPECT_FALSE(j.contains("image_fit"));
}

// Files of earlier versions are read, and are written with the same keys: keys never change.
TEST_F(Settings, KeysAreThoseOfEarlierVersions) {
  const std::string text =
      R"({"device":"cpu","dtype":"f32","flow_shift":3.0,"fps":8.0,"grid":"diffusers",)"
      R"("guidance_scale":4.0,"guidance_scale_2":2.5,"height":16,"image":"a.png",)"
      R"("image_sha256":"ab","init_latents":"l.safetensors","init_latents_sha256":"cd",)"
      R"("level":"safe","max_sequence_length":512,"model":"m","negative_prompt":"ugly",)"
      R"("num_frames":5,"num_inference_steps":2,"prompt":"x","residual":"f32","rng":"cuda",)"
      R"("rng_multiprocessors":108,"sampler":"unipc","seed":18446744073709551615,)"
      R"("sinusoid":"original","step_cache":0.1,"tachyscope":"VERSION","width":32})";
  const RunSettings settings = read(text);
  EXPECT_EQ(settings.request.steps, 2);
  EXPECT_EQ(settings.inputs.at("image").sha256, "ab");
  std::string expected = text;
  expected.replace(expected.find("VERSION"), 7, version());
  EXPECT_EQ(to_json(settings).dump(), expected);
}

class Given : public testing::Test {
 protected:
  // Returns `base` with a command line laid over it.
  VideoRequest over(VideoRequest base, std::vector<const char*> words) {
    CommandLine line("", "", "");
    CommandOptions sub = line.add_command("generate", "");
    GenerateOptions options;
    register_options(sub, options);
    words.insert(words.begin(), {"tachyscope", "generate"});
    int code = 0;
    EXPECT_EQ(line.parse(static_cast<int>(words.size()), const_cast<char**>(words.data()), code), "generate");
    options.apply(base);
    return base;
  }
};

TEST_F(Given, NothingLeavesTheRequest) {
  expect_equal(over(other_request(), {}), other_request());
  expect_equal(over(VideoRequest(), {}), VideoRequest());
}

TEST_F(Given, EveryOptionReachesItsField) {
  for (const FieldOption& option : request_options()) {
    const RequestField* field = find_field(request_fields(), option.field);
    // Each prompt and each seed makes a video of its own (make_jobs).
    if (!field || option.field == "prompt" || option.field == "seed") continue;
    std::visit(
        [&](auto member) {
          using Value = std::decay_t<decltype(*value_in(VideoRequest().*member))>;
          const auto value = other_value<Value>(*field);
          const std::string name(option_of(option.field));
          std::vector<std::string> words;
          if constexpr (std::is_same_v<Value, std::vector<std::string>>)
            for (const std::string& one : value) words.insert(words.end(), {name, one});
          else
            words = {name, fmt::format("{}", value)};
          std::vector<const char*> arguments;
          for (const std::string& word : words) arguments.push_back(word.c_str());
          const VideoRequest given = over(VideoRequest(), arguments);
          ASSERT_TRUE(value_in(given.*member)) << option.field;
          EXPECT_EQ(*value_in(given.*member), value) << option.field;
        },
        field->member);
  }
}

TEST_F(Given, WhatALevelDecidesFollowsALevel) {
  const VideoRequest base{.level = "safe", .dtype = "f32", .step_cache = 0, .residual = "f32"};
  const VideoRequest leveled = over(base, {"--level", "extreme", "--step-cache", "0.2"});
  EXPECT_EQ(leveled.level, "extreme");
  EXPECT_EQ(leveled.dtype, std::nullopt);
  EXPECT_EQ(leveled.residual, std::nullopt);
  EXPECT_EQ(leveled.step_cache, 0.2);
  EXPECT_EQ(over(base, {"--steps", "3"}).dtype, "f32");
}

// If another preset is given over the settings of an earlier run (--from), it decides anew.
TEST_F(Given, WhatAPresetSetsFollowsAPreset) {
  const VideoRequest base{.preset = "fastwan-3",
                          .steps = 3,
                          .guidance = 1,
                          .guidance_2 = 1,
                          .shift = 8,
                          .sampler = "fastwan-3",
                          .grid = "original"};
  const VideoRequest again = over(base, {"--preset", "causvid-9", "--steps", "5"});
  EXPECT_EQ(again.preset, "causvid-9");
  EXPECT_EQ(again.steps, 5);
  EXPECT_EQ(again.sampler, std::nullopt);
  EXPECT_EQ(again.grid, std::nullopt);
  EXPECT_EQ(again.shift, std::nullopt);
  EXPECT_EQ(again.guidance, std::nullopt);
  EXPECT_EQ(again.guidance_2, std::nullopt);
  EXPECT_EQ(over(base, {"--seed", "3"}).sampler, "fastwan-3");
}

}  // namespace
}  // namespace tachy::cli
