// Transformers that were trained with sparse attention (models/wan/branches/trained) are compared with diffusers'
// transformer in float64, whose attention does the same (tests/golden/wan/make_trained.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_run.h"
#include "models/wan/infer_config.h"
#include "models/wan/relatives.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using testing::HasSubstr;

struct TrainedCase : test::WanDitCase {
  explicit TrainedCase(const std::string& name) : WanDitCase(name) {
    config.trained = find_trained_sparse(*weights);
    sparse = WanSparse{.share = *golden["share"].as<float>(), .chooser = KeyChooser::trained};
  }
};

class WanTrained : public testing::TestWithParam<std::string> {};

TEST_P(WanTrained, WithinTheBoundForPackedAndMappedWeights) {
  for (const bool pack : {true, false}) {
    TrainedCase c(GetParam());
    refuse_relatives(*c.weights);  // which throws
    EXPECT_EQ(c.config.trained, GetParam() == "sla" ? TrainedSparse::linear : TrainedSparse::cubes);
    test::PlannedRun run{.pack = pack};
    auto y = c.run(run);
    EXPECT_LE(c.error(y), c.golden.bound()) << "pack " << pack;
    RecordProperty(pack ? "packed" : "mapped", fmt::format("{:.2e}", c.error(y)));
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(WanTrained, AttendsToEverythingWhereNoBlocksAreAskedFor) {
  TrainedCase c(GetParam());
  c.sparse.reset(), c.sample = "sample_dense";
  test::PlannedRun run;
  auto y = c.run(run);
  EXPECT_LE(c.error(y), c.golden.bound());
}

TEST_P(WanTrained, BitsDoNotDependOnThreadsOrTheRope) {
  TrainedCase c(GetParam());
  test::PlannedRun one{.threads = 1};
  const auto a = c.run(one);
  for (const int threads : {2, 3}) {
    test::PlannedRun run{.threads = threads};
    EXPECT_EQ(a, c.run(run)) << threads << " threads";
  }
}

// Its heads have 12 channels, so that a plain kernel attends to the lists.
TEST_P(WanTrained, OnGpu) {
  if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  const auto gpu = cuda::open_gpu();
  if (gpu->info().capability() < 80) GTEST_SKIP() << "no kernel for lists";
  TrainedCase c(GetParam());
  test::GpuRun run{*gpu, DType::bf16, DType::f32};
  auto y = c.run(run);
  EXPECT_LE(c.error(y), 2e-2);  // rounding q, k, v, u, gate and result to bf16 on a CPU changes 3e-3
  RecordProperty("error", fmt::format("{:.2e}", c.error(y)));
  EXPECT_EQ(y, c.run(run)) << "another run gives other bits";
}

INSTANTIATE_TEST_SUITE_P(Cases, WanTrained, testing::Values("vsa", "vsa_whole", "sla"));

TEST(WanTrainedShares, AreThePublishedOnes) {
  WanConfig c;
  c.trained = TrainedSparse::cubes, c.num_heads = 12;
  EXPECT_EQ(c.trained_share(), 0.2);  // FastWan 1.3B
  c.num_heads = 40;
  EXPECT_EQ(c.trained_share(), 0.1);
  c.trained = TrainedSparse::linear, c.num_heads = 12;
  EXPECT_EQ(c.trained_share(), 0.1);
}

TEST(CubePlaces, AreThoseOfTheReference) {
  std::vector<int32_t> ends;
  const std::vector<int32_t> places = cube_places(5, 6, 7, ends);
  EXPECT_THAT(ends, testing::ElementsAre(64, 112, 144, 168, 184, 196, 204, 210));
  EXPECT_EQ(places[0], 0);
  EXPECT_EQ(places[1], 1);
  EXPECT_EQ(places[4], 64) << "the second cube begins at column 4";
  EXPECT_EQ(places[7], 4) << "the second row of the first cube";
  EXPECT_EQ(places.back(), 209);
}

TEST(TurboDiffusionFiles, InEightBitsAreRefusedByName) {
  const std::vector<TensorSource::Entry> entries = {{.name = "blocks.0.attn1.to_q.int8_weight",
                                                     .name_in_file = "blocks.0.self_attn.q.int8_weight",
                                                     .dims = {2, 2}}};
  try {
    refuse_turbo_quantised(TensorSource(entries, {}));
    FAIL() << "it is accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), HasSubstr("self_attn.q.int8_weight"));
  }
}

TEST(TurboDiffusionNames, AreRead) {
  EXPECT_EQ(dit_from_original("blocks.3.self_attn.attn_op.local_attn.proj_l.weight"),
            "blocks.3.attn1.proj_l.weight");
  EXPECT_EQ(dit_to_original("blocks.3.attn1.proj_l.bias"),
            "blocks.3.self_attn.attn_op.local_attn.proj_l.bias");
}

}  // namespace
}  // namespace tachy
