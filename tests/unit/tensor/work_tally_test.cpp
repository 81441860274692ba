// Tests the counts of measure runs: by stage, and with repeated passes multiplied.
#include "tensor/work_tally.h"

#include <gtest/gtest.h>

#include <thread>

namespace tachy {
namespace {

constexpr OpWork kProduct{
    .op = "gemm", .kind = WorkKind::product, .numbers = DType::bf16, .flops = 100, .bytes = 8};
constexpr OpWork kCopy{.op = "copy", .bytes = 16};

int64_t calls_of(const WorkTally::Stage& stage, std::string_view op) {
  int64_t calls = 0;
  for (const OpWork& w : stage.second)
    if (w.op == op) calls += w.calls;
  return calls;
}

TEST(WorkTally, LikeCallsAreOneAndStagesStayApart) {
  WorkTally tally;
  tally.begin_stage("denoise");
  tally.note(kProduct), tally.note(kProduct), tally.note(kCopy);
  tally.begin_stage("decode");
  tally.note(kCopy);
  tally.begin_stage("denoise");  // begins the stage again for the next window
  tally.note(kProduct);
  const auto stages = tally.stages();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].first, "denoise");
  EXPECT_EQ(stages[0].second.size(), 2u);
  EXPECT_EQ(calls_of(stages[0], "gemm"), 3);
  EXPECT_EQ(calls_of(stages[0], "copy"), 1);
  EXPECT_EQ(calls_of(stages[1], "copy"), 1);
}

TEST(WorkTally, RepeatsWhatCameSince) {
  WorkTally tally;
  tally.begin_stage("denoise");
  tally.note(kProduct);
  const WorkTally before = tally;
  tally.note(kProduct), tally.note(kCopy);
  tally.repeat_since(before, 5);
  EXPECT_EQ(calls_of(tally.stages()[0], "gemm"), 1 + 5);
  EXPECT_EQ(calls_of(tally.stages()[0], "copy"), 5);
  tally.repeat_since(tally, 7);  // nothing was added
  EXPECT_EQ(calls_of(tally.stages()[0], "gemm"), 1 + 5);
}

TEST(WorkTally, BelongsToAThread) {
  EXPECT_EQ(WorkTally::current(), nullptr);
  WorkTally outer, inner;
  {
    const WorkTally::Counting counting(outer);
    EXPECT_EQ(WorkTally::current(), &outer);
    {
      const WorkTally::Counting aside(inner);
      EXPECT_EQ(WorkTally::current(), &inner);
    }
    EXPECT_EQ(WorkTally::current(), &outer);
    std::thread([] { EXPECT_EQ(WorkTally::current(), nullptr); }).join();
  }
  EXPECT_EQ(WorkTally::current(), nullptr);
}

TEST(WorkTally, BytesOfTensorsThatAreThere) {
  const Tensor x(nullptr, DType::bf16, {3, 5}), none;
  EXPECT_EQ(bytes_of({x, none, x}), 60);
}

}  // namespace
}  // namespace tachy
