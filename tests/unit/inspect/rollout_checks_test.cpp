// Tests `validate` on models that make videos block by block: golden rollouts pass, a wrong one is found, and
// any such model is compared with itself in other arithmetic.
#include "inspect/rollout_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "../pipelines/world_model.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

const fs::path kGoldenRollouts = fs::path(TACHY_SOURCE_DIR) / "tests/golden/causal";

class Rollouts : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-rollouts-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::copy(kGoldenRollouts, folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  void TearDown() override { fs::remove_all(folder_); }
  // Replaces a text in the header of a case's file by another of the same length.
  void change(const std::string& file, const std::string& from, const std::string& to) {
    std::ifstream in(folder_ / file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    in.close();
    const size_t at = bytes.find(from);
    ASSERT_NE(at, bytes.npos);
    bytes.replace(at, from.size(), to);
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }
  std::vector<Check> checks(const std::string& level = "safe") {
    return run_validate({.ops = false, .golden = {folder_}, .level = level, .threads = 2});
  }
  fs::path folder_;
};

TEST_F(Rollouts, TheGoldenOnesPass) {
  for (const char* level : {"safe", "none", "aggressive"}) {
    const auto all = checks(level);
    EXPECT_EQ(all.size(), 8u) << "velocities and latents of four cases";
    for (const Check& c : all) {
      EXPECT_TRUE(c.ok) << level << " " << c.name << " " << c.max << " " << c.detail;
      EXPECT_EQ(c.kind, "rollout");
      EXPECT_GT(c.max, 0) << "float32 is not float64";
      EXPECT_LE(c.max, c.bound);
    }
  }
}

TEST_F(Rollouts, AnotherWindowIsFound) {
  change("universal.safetensors", "\"window\":\"6\"", "\"window\":\"5\"");
  int failed = 0;
  for (const Check& c : checks()) {
    failed += !c.ok;
    EXPECT_EQ(c.ok, !c.name.starts_with("universal")) << c.name;
    if (!c.ok) EXPECT_THAT(c.detail, HasSubstr("beyond the bound"));
  }
  EXPECT_EQ(failed, 2);
}

TEST_F(Rollouts, AMissingCaseIsAMiss) {
  fs::remove(folder_ / "templerun.safetensors");
  std::vector<std::string> missed;
  try {
    for (const Check& c : checks())
      if (!c.ok) missed.push_back(c.detail);
  } catch (const Error& e) {
    missed.push_back(e.message());
  }
  EXPECT_THAT(missed, AllOf(testing::Not(testing::IsEmpty()), Each(HasSubstr("templerun"))));
}

TEST_F(Rollouts, AnyModelIsHeldAgainstItself) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  const auto all = run_validate({.ops = false, .model = model.path(), .threads = 2});
  ASSERT_EQ(all.size(), 7u) << "two rollouts of two outputs, the image encoder, the VAE's two ways";
  for (const Check& c : all) {
    EXPECT_TRUE(c.ok) << c.name << " " << c.max << " " << c.mean << " " << c.detail;
    EXPECT_FALSE(c.skipped) << c.name;
    EXPECT_GT(c.mean, 0) << c.name;
    EXPECT_LE(c.mean, c.max) << c.name;
  }
  EXPECT_THAT(all[0].name, AllOf(HasSubstr("definitions"), HasSubstr("velocities")));
  EXPECT_THAT(all[2].name, AllOf(HasSubstr("bf16 beside definitions"), HasSubstr("velocities")));
  EXPECT_THAT(all[2].detail, AllOf(HasSubstr("themselves with products in bf16"),
                                   HasSubstr("asked: max < 0.01, mean < 0.001")));
  EXPECT_THAT(all[4].name, HasSubstr("image-encoder"));
  EXPECT_THAT(all[5].name, HasSubstr("vae-encode"));
  EXPECT_THAT(all[6].name, HasSubstr("vae-decode"));
  EXPECT_GT(all[2].max, 20 * all[0].max) << "nothing was rounded";
}

TEST_F(Rollouts, BrokenWeightsAreSaid) {
  const test::WorldModel model({.world = test::WorldModel::world(), .broken = true});
  try {
    run_validate({.ops = false, .model = model.path(), .threads = 2});
    FAIL() << "NaN passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::numerical) << e.message();
  }
}

}  // namespace
}  // namespace tachy
