// `validate` finds errors: a changed weight, a changed golden value, another frame.
#include "inspect/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "inspect/doctor.h"
#include "inspect/golden_set.h"
#include "inspect/op_runner.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TACHY_SOURCE_DIR) / "tests/golden/validate";
const fs::path kModel = fs::path(TACHY_SOURCE_DIR) / "tests/golden/pipeline/model";

std::vector<Check> checks_of(const fs::path& golden, const std::string& level = "safe") {
  return run_validate({.ops = false, .golden = {golden}, .model = kModel, .level = level, .threads = 2});
}

std::vector<std::string> failed(const std::vector<Check>& checks) {
  std::vector<std::string> names;
  for (const Check& c : checks)
    if (!c.ok) names.push_back(c.name);
  return names;
}

class Validate : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-validate-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::copy(kGolden, folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void change_json(const std::function<void(nlohmann::json&)>& change) {
    std::ifstream in(folder_ / "golden.json");
    auto j = nlohmann::json::parse(in);
    change(j);
    std::ofstream(folder_ / "golden.json") << j;
  }
  fs::path folder_;
};

TEST_F(Validate, TheTestModelPassesAtEachLevel) {
  for (const char* level : {"safe", "none"}) {
    const auto checks = checks_of(kGolden, level);
    EXPECT_THAT(failed(checks), testing::IsEmpty()) << level;
    int frames = 0, stages = 0;
    for (const Check& c : checks) {
      frames += c.kind == "frame", stages += c.kind == "stage";
      EXPECT_FALSE(c.skipped);
    }
    EXPECT_EQ(frames, 5);
    EXPECT_GE(stages, 9);
  }
}

TEST_F(Validate, NoticesOtherWeights) {
  change_json(
      [](auto& j) { j["weights"]["vae/diffusion_pytorch_model.safetensors"] = std::string(64, '0'); });
  EXPECT_THAT(failed(checks_of(folder_)), testing::ElementsAre("model: weight files"));
}

TEST_F(Validate, NoticesAChangedValue) {
  std::fstream file(folder_ / "transformer.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), 8);
  std::string text(header, ' ');
  file.read(text.data(), static_cast<std::streamsize>(header));
  const auto offsets = nlohmann::json::parse(text)["sample"]["data_offsets"];
  // This is the byte with the sign and the exponent.
  file.seekp(static_cast<std::streamoff>(8 + header + offsets[1].get<uint64_t>() - 1));
  file.put(0x7e);
  file.close();
  EXPECT_THAT(failed(checks_of(folder_)), testing::ElementsAre("model: transformer: sample"));
}

TEST_F(Validate, NoticesAnotherVideo) {
  change_json([](auto& j) { j["generation"]["run"]["seed"] = 8; });
  const auto names = failed(checks_of(folder_));
  EXPECT_EQ(names.size(), 6u) << "the latents and five frames";
  change_json([](auto& j) { j["generation"]["run"]["num_frames"] = 9; });
  EXPECT_THROW(checks_of(folder_), Error) << "frames.png has another shape";
}

TEST_F(Validate, DamagedFoldersAreRefused) {
  const auto code_of = [&] {
    try {
      checks_of(folder_);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  std::ofstream(folder_ / "golden.json") << "{\"tachyscope_golden\": 2}";
  EXPECT_EQ(code_of(), ErrorCode::corrupt);
  std::ofstream(folder_ / "golden.json") << "no json";
  EXPECT_EQ(code_of(), ErrorCode::corrupt);
  fs::remove(folder_ / "golden.json");
  EXPECT_EQ(code_of(), ErrorCode::not_found);
}

TEST_F(Validate, AMissingModelOnlyFailsItsStages) {
  EXPECT_THROW(run_validate({.ops = false, .golden = {kGolden}, .model = "no/such/model"}), Error);
  EXPECT_THROW(run_validate({.models = false, .modes = {"guess"}}), Error);
  EXPECT_THROW(run_validate({.models = false, .cases = {"huge"}}), Error);
}

TEST_F(Validate, OpsOfAllModesAndCases) {
  const auto checks =
      run_validate({.models = false, .filter = "rmsnorm:3", .cases = {"tiny", "odd", "real"}, .threads = 2});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_TRUE(checks[0].ok) << checks[0].detail;
  EXPECT_THAT(checks[0].detail, testing::HasSubstr("30 checks"))
      << "6 cases: cpu ref, bitwise, canary; ref the latter two";
}

TEST(FrameDistanceTest, LevelsAndDecibels) {
  std::vector<uint8_t> a(300, 100), b = a;
  EXPECT_EQ(frame_distance(a.data(), b.data(), 300).psnr, 999);
  b[7] = 110;
  const FrameDistance d = frame_distance(a.data(), b.data(), 300);
  EXPECT_EQ(d.max, 10);
  EXPECT_DOUBLE_EQ(d.mean, 10.0 / 300);
  EXPECT_NEAR(d.psnr, 10 * std::log10(255.0 * 255 * 300 / 100), 1e-9);
}

TEST(Doctor, LeavesNoImplementationUntested) {
  std::set<std::string> runnable, tested;
  ThreadPool pool(1);
  for (const ops::OpCase& c : all_op_cases()) {
    if (c.kind >= ops::CaseKind::real) continue;
    ops::CaseMemory memory(1, c.kind);
    const ops::BoundOp op = c.make(memory);
    Arena arena;
    for (const std::string& impl : op.impls) {
      if (op.why_not(impl, Stream{.arena = &arena, .pool = &pool})) continue;
      const std::string name = c.op + ":" + impl + (op.compute == Compute::bf16 ? " bf16" : "");
      runnable.insert(name);
      if (c.flops <= kSelfTestFlops) tested.insert(name);
    }
  }
  EXPECT_EQ(runnable, tested);
}

TEST(Doctor, EveryOpHasAPickAndWorks) {
  const DoctorReport safe = run_doctor("safe", 2);
  EXPECT_TRUE(safe.ok());
  EXPECT_GE(safe.ops.size(), 20u);
  EXPECT_FALSE(safe.machine.simd_target.empty());
  EXPECT_GT(safe.machine.memory_bytes, 0u);
  int fast = 0;
  for (const OpHealth& h : safe.ops) {
    EXPECT_NE(h.pick, "none") << h.op;
    EXPECT_THAT(h.why, testing::AnyOf(testing::HasSubstr("first choice"), testing::Eq("its only one"),
                                      testing::StartsWith("not ")))
        << h.op;
    fast += h.pick != "ref";
  }
  EXPECT_GE(fast, 15);
  ASSERT_EQ(safe.levels.size(), 4u);
  EXPECT_TRUE(safe.levels[1].active);
  for (const OpHealth& h : run_doctor("none", 1).ops) EXPECT_EQ(h.pick, "ref") << h.op;
  EXPECT_THROW(run_doctor("warp", 1), Error);
}

}  // namespace
}  // namespace tachy
