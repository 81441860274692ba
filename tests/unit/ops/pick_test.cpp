// Tests the rule that chooses an implementation: order, refusals, TACHY_FORCE, level none, entries that this
// build lacks; and what a measure run records of the choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/attention/attention_impl.h"
#include "ops/impl_table.h"
#include "ops/pick_record.h"

namespace tachy::ops {
namespace {

using testing::HasSubstr;

struct Args {
  int rows = 100;
};
void nothing(const Args&, Stream&) {}

std::optional<Refusal> not_few(const Args& a, const Stream&) {
  if (a.rows < 10) return Refusal::slower("fewer rows than ", "10");
  return std::nullopt;
}
std::optional<Refusal> never(const Args&, const Stream&) { return Refusal::arguments("it never can"); }

constexpr Impl<Args> kTable[] = {{"gpu", nullptr, nothing, DeviceType::cuda},
                                 {"unbuilt", nullptr, nullptr},
                                 {"fast", not_few, nothing},
                                 {"never", never, nothing},
                                 {"plain", nullptr, nothing},
                                 {"ref", nullptr, nothing}};

class Picking : public testing::Test {
 protected:
  ~Picking() override { set_forced_impl("op", nullptr); }
  std::string chosen(int rows) {
    passed_.clear();
    const auto* impl = choose<Args>("op", kTable, {rows}, stream_, &passed_);
    return impl ? impl->name : "none";
  }
  Arena arena_;
  Stream stream_{.arena = &arena_};
  std::vector<PassedOver> passed_;
};

TEST_F(Picking, TheFirstThatCan) {
  EXPECT_EQ(chosen(100), "fast");
  EXPECT_EQ(describe(passed_), "unbuilt: this build lacks it");
  EXPECT_EQ(chosen(9), "plain");
  EXPECT_EQ(describe(passed_), "unbuilt: this build lacks it; fast: fewer rows than 10; never: it never can");
  ASSERT_EQ(passed_.size(), 3u) << "an entry for other devices is no choice";
  EXPECT_EQ(passed_[0].why.why, Refusal::Why::not_built);
  EXPECT_EQ(passed_[1].why.why, Refusal::Why::slower);
  EXPECT_EQ(passed_[2].why.why, Refusal::Why::arguments);
  EXPECT_EQ(why_not(kTable[0], Args(), stream_)->why, Refusal::Why::other_device);
}

TEST_F(Picking, LevelNoneAndForce) {
  stream_.precision.definitions = true;
  EXPECT_EQ(chosen(100), "ref");
  set_forced_impl("op", "plain");
  EXPECT_EQ(chosen(100), "plain") << "a name counts for more than the level";
  stream_.precision.definitions = false;
  set_forced_impl("op", "fast");
  EXPECT_EQ(chosen(9), "none") << "what is named and cannot run is not replaced";
  try {
    pick<Args>("op", kTable, {9}, stream_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), testing::AllOf(HasSubstr("'fast' (TACHY_FORCE)"),
                                            HasSubstr("fewer rows than 10"), HasSubstr("plain")));
  }
}

TEST_F(Picking, AForcedNameThatThereIsNotIsRefusedWithThoseThereAre) {
  set_forced_impl("op", "fat");
  try {
    pick<Args>("op", kTable, {100}, stream_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.message(),
                testing::AllOf(HasSubstr("op has no implementation 'fat'"), HasSubstr("fast, ")));
  }
}

TEST_F(Picking, TheVariableNamesOpsThatThereAre) {
  const auto forced = parse_forced("gemm:ref,attention8:blocks8_sm80,rmsnorm_backward:simple");
  EXPECT_EQ(forced.size(), 3u);
  EXPECT_EQ(forced.at("gemm"), "ref");
  EXPECT_TRUE(parse_forced("").empty());
  for (const auto& [text, told] : {std::pair("gem:ref", "no op is named 'gem'; there are attention8, "),
                                   std::pair("gemm:ref,gemm", "expected op:implementation, got 'gemm'")}) {
    try {
      parse_forced(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(e.message(), HasSubstr(told));
    }
  }
}

TEST_F(Picking, AMeasureRunWritesPicksDown) {
  PickRecord record;
  stream_.hooks.picks = &record;
  for (const int rows : {100, 9, 101, 102}) pick<Args>("op", kTable, {rows}, stream_);
  Arena real(0);
  Stream run = stream_;
  run.arena = &real;
  pick<Args>("op", kTable, {100}, run);  // not a measure run, so it is not counted
  const auto picks = record.picks();
  ASSERT_EQ(picks.size(), 2u);
  EXPECT_EQ(picks[0].op, "op");
  EXPECT_EQ(picks[0].impl, "fast");
  EXPECT_EQ(picks[0].calls, 3);
  EXPECT_EQ(picks[1].impl, "plain");
  EXPECT_EQ(picks[1].calls, 1);
  EXPECT_THAT(picks[1].why, HasSubstr("fewer rows than 10"));
}

TEST_F(Picking, SomeCallsStandForMore) {
  PickRecord record;
  record.note("op", "fast", ""), record.note("op", "plain", "few");
  const PickRecord before = record;
  for (int i = 0; i < 2; ++i) record.note("op", "fast", "");
  record.note("other", "ref", "");
  record.repeat_since(before, 5);
  const auto picks = record.picks();
  ASSERT_EQ(picks.size(), 3u);
  EXPECT_EQ(picks[0].calls, 1 + 2 * 5) << picks[0].impl;
  EXPECT_EQ(picks[1].calls, 1) << picks[1].impl;
  EXPECT_EQ(picks[2].calls, 5) << picks[2].impl;
}

TEST_F(Picking, AComputingRunIsComparedWithItsPlan) {
  PickRecord plan;
  stream_.hooks.picks = &plan;
  pick<Args>("op", kTable, {100}, stream_);
  const auto planned = plan.picks();
  PickCheck check(planned);
  Arena real(0);
  Stream run = stream_;
  run.arena = &real, run.hooks.planned = &check;
  for (const int rows : {100, 101, 9}) pick<Args>("op", kTable, {rows}, run);
  pick<Args>("op", kTable, {9}, stream_);  // a measure run, so it is not compared
  const auto picks = check.picks();
  ASSERT_EQ(picks.size(), 2u);
  EXPECT_EQ(picks[0].impl, "fast");
  EXPECT_EQ(picks[0].calls, 2);
  EXPECT_EQ(picks[0].why, "");
  EXPECT_EQ(picks[1].impl, "plain");
  EXPECT_EQ(picks[1].calls, 1);
  EXPECT_THAT(picks[1].why, HasSubstr("the plan has no such pick"));
}

// Launchers of kernels exist exactly if the build has kernels.
TEST_F(Picking, LaunchersOfABuildWithoutCuda) {
  int gpu = 0;
  for (const auto& impl : attention_table()) {
    gpu += impl.device == DeviceType::cuda;
    EXPECT_EQ(impl.run != nullptr, impl.device == DeviceType::cpu || cuda::kBuilt) << impl.name;
  }
  EXPECT_GE(gpu, 5);
}

}  // namespace
}  // namespace tachy::ops
