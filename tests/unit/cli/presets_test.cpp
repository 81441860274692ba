// Tests `tachyscope presets`, and `generate --preset` as a user sees it.
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Presets : public CliTest {};

TEST_F(Presets, AreListedWithWhatTheySet) {
  const Done done = run({"presets", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json all = json::parse(done.out);
  std::vector<std::string> names;
  for (const json& preset : all) {
    names.push_back(preset.at("name"));
    EXPECT_FALSE(preset.at("source").get<std::string>().empty());
    for (const json& row : preset.at("sets")) {
      EXPECT_EQ(row.at("timesteps").size(), row.at("num_inference_steps").get<size_t>()) << preset.at("name");
      EXPECT_EQ(row.at("sigmas").size(), row.at("timesteps").size() + 1);
      EXPECT_EQ(row.contains("guidance_scale_2"), row.contains("lora_strength_2"));
    }
  }
  EXPECT_THAT(names,
              testing::ElementsAre("lightx2v-4", "lightx2v-8", "lightning-4", "fastwan-3", "causvid-9",
                                   "rcm-4", "self-forcing-4", "causvid", "accvid-10", "talk-4", "talk-3"));
  EXPECT_EQ(all[4]["sets"][0]["lora_strength"], 0.5);
  EXPECT_EQ(all[0]["sets"][2]["high_noise_steps"], 2);

  const Done text = run({"presets"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("timesteps 1000 937.5 833.3333 625\n"), HasSubstr("strength 4 and 1"),
                              HasSubstr("the list causvid-14b (euler), 9 steps")));
}

TEST_F(Presets, SettingsHoldThePresetAndItsValuesAndRepeatTheRun) {
  ASSERT_EQ(run(generate({"a red cat", "--preset", "rcm-4", "-o", "a/"})).code, 0);
  const json settings = json::parse(read_text(path("a/settings.json")));
  EXPECT_EQ(settings["preset"], "rcm-4");
  EXPECT_EQ(settings["sampler"], "rcm-4");
  EXPECT_EQ(settings["num_inference_steps"], 4);
  EXPECT_EQ(settings["guidance_scale"], 1);
  ASSERT_EQ(run({"generate", "--from", "a/settings.json", "-o", "b/"}).code, 0);
  EXPECT_EQ(read_text(path("a/frame_0004.png")), read_text(path("b/frame_0004.png")));
  EXPECT_FALSE(read_text(path("a/frame_0004.png")).empty());
  const json again = json::parse(read_text(path("b/settings.json")));
  EXPECT_EQ(again, settings);

  // With another preset the run decides anew; if no preset is given, the settings of a run hold none.
  ASSERT_EQ(run({"generate", "--from", "a/settings.json", "--preset", "lightx2v-8", "-o", "c/"}).code, 0);
  EXPECT_EQ(json::parse(read_text(path("c/settings.json")))["num_inference_steps"], 8);
  ASSERT_EQ(run(generate({"a red cat", "-o", "d/"})).code, 0);
  EXPECT_FALSE(json::parse(read_text(path("d/settings.json"))).contains("preset"));
}

TEST_F(Presets, PlansAndRefusals) {
  const Done plan = run(generate({"a red cat", "--preset", "causvid-9", "--plan", "--json"}));
  EXPECT_EQ(plan.code, 0) << plan.err;
  const Done refused = run(generate({"a red cat", "--preset", "lightning-4", "-o", "x/"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--preset: lightning-4"), HasSubstr("two experts")));
  const Done steps = run(generate({"a red cat", "--preset", "fastwan-3", "--steps", "2", "-o", "x/"}));
  EXPECT_EQ(steps.code, 2);
  EXPECT_THAT(steps.err, AllOf(HasSubstr("--steps"), HasSubstr("has 3")));
  EXPECT_TRUE(!fs::exists(path("x")));
}

}  // namespace
}  // namespace tachy::test
