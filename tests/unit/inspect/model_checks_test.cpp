// Tests `validate` of a named model: without golden values it compares its stages with the definitions. Whole
// generations of the shipped world and talking photo are compared with those of the reference. Both kinds of
// checks must also fail when a test changes a value or the request.
#include "inspect/model_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path kSource = TACHY_SOURCE_DIR;

std::vector<std::string> stages(const std::vector<Check>& checks, bool failed_only) {
  std::vector<std::string> names;
  for (const Check& c : checks)
    if (!failed_only || !c.ok) names.push_back(c.name.substr(c.name.find(": ") + 2));
  return names;
}

ValidateOptions of_model(const fs::path& model, const std::string& level = "safe") {
  return {.ops = false, .model = model, .level = level, .threads = 2};
}

TEST(ModelChecks, EveryStageBesideTheDefinitions) {
  for (const char* level : {"safe", "aggressive"}) {
    const auto checks = run_validate(of_model(kSource / "tests/golden/pipeline/model", level));
    EXPECT_THAT(stages(checks, false),
                ElementsAre("text-encoder", "denoise step 1", "denoise step 2", "vae-decode"));
    for (const Check& c : checks) {
      EXPECT_TRUE(c.ok) << level << " " << c.name << " " << c.max << " " << c.mean << " " << c.detail;
      EXPECT_GT(c.max, 0) << "the fast way has other bits";
      EXPECT_LE(c.max, c.bound);
      EXPECT_EQ(c.detail.find("asked") != c.detail.npos, std::string(level) == "aggressive") << c.detail;
    }
  }
}

TEST(ModelChecks, Pictures) {
  const auto picture = run_validate(of_model(kSource / "tests/golden/image_pipeline/i2v"));
  EXPECT_THAT(stages(picture, true), IsEmpty());
  EXPECT_THAT(stages(picture, false), testing::Contains("vae-encode"));
}

// One wrong value makes everything that is computed from it wrong, and nothing else.
TEST(ModelChecks, AFaultIsFoundWhereItIs) {
  ValidateOptions options = of_model(kSource / "tests/golden/pipeline/model");
  const auto nudge = [](const char* where) {
    return [where](const std::string& stage, std::span<double> values) {
      if (stage == where) values[values.size() / 2] += 0.05;
    };
  };
  options.fault = nudge("transformer");
  EXPECT_THAT(stages(run_validate(options), true),
              ElementsAre("denoise step 1", "denoise step 2", "vae-decode"));
  options.fault = nudge("vae-decode");
  EXPECT_THAT(stages(run_validate(options), true), ElementsAre("vae-decode"));
  options.fault = nudge("text-encoder");
  EXPECT_THAT(stages(run_validate(options), true), ElementsAre("text-encoder"));
  options.fault = [](const std::string& stage, std::span<double> values) {
    if (stage == "vae-decode") values[0] = NAN;
  };
  EXPECT_THAT(stages(run_validate(options), true), ElementsAre("vae-decode"));
}

TEST(ModelChecks, BoundsComeFromTheDefinitionsInBf16) {
  const TensorFile::Values want{{4}, {1, -1, 0.5, 0.25}}, rounded{{4}, {1.01, -1, 0.5, 0.25}};
  TensorFile::Values got = want;
  got.data[0] = 1.02;
  Check near, far, exact;
  compare_with_definitions(got, want, &rounded, true, near);
  EXPECT_TRUE(near.ok) << near.detail;
  EXPECT_NEAR(near.bound, 0.1, 1e-9);
  got.data[0] = 1.12;
  compare_with_definitions(got, want, &rounded, true, far);
  EXPECT_FALSE(far.ok);
  EXPECT_THAT(far.detail, testing::AllOf(HasSubstr("beyond the bound"),
                                         HasSubstr("asked: max < 0.01, mean < 0.001: not met")));
  compare_with_definitions(rounded, want, nullptr, false, exact);
  EXPECT_FALSE(exact.ok) << "float32 has no such room";
}

// A shipped model's folder with a copy of `golden` that can be changed; all other files are links to the
// originals.
class ShippedGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-golden-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    const fs::path model = kSource / "models" / GetParam();
    for (const auto& entry : fs::directory_iterator(model))
      if (entry.path().filename() != "golden")
        fs::create_symlink(entry.path(), folder_ / entry.path().filename());
    fs::copy(model / "golden", folder_ / "golden");
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<Check> checks(const std::string& level) {
    return run_validate({.ops = false, .golden = {folder_ / "golden"}, .level = level, .threads = 2});
  }
  fs::path folder_;
};

TEST_P(ShippedGolden, IsMetInFloat32AndInBf16) {
  for (const char* level : {"safe", "aggressive"}) {
    const auto all = checks(level);
    EXPECT_THAT(stages(all, true), IsEmpty()) << level;
    EXPECT_GE(std::ranges::count_if(all, [](const Check& c) { return c.kind == "frame"; }), 9);
  }
}

TEST_P(ShippedGolden, AnotherRunIsFound) {
  std::ifstream in(folder_ / "golden/golden.json");
  auto j = nlohmann::json::parse(in);
  auto& run = j["generation"]["run"];
  if (run["kind"] == "world")
    run["actions"][3]["keys"] = {"A"};  // this is in the fourth block, frames 9 to 12
  else
    run["prompt"] = "a person shakes the head";
  std::ofstream(folder_ / "golden/golden.json") << j;
  const auto failed = stages(checks("safe"), true);
  EXPECT_THAT(failed, testing::Contains(HasSubstr("latents after")));
  EXPECT_THAT(failed, testing::Contains("frame 16"));
  EXPECT_EQ(std::ranges::count(failed, "frame 8"), run["kind"] == "world" ? 0 : 1)
      << "frames before the change are the same";
}

INSTANTIATE_TEST_SUITE_P(All, ShippedGolden, testing::Values("world", "talker"));

}  // namespace
}  // namespace tachy
