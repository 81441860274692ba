// The Wan transformer on a GPU is compared with diffusers in float64: every golden configuration (per-token
// timesteps, both image branches, batch 2), each dtype, the residual stream in float32 or like the
// activations; float32 with products in TF32; with adapters in every layer. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu_run.h"
#include "wan_adapters.h"
#include "wan_dit_case.h"

namespace tachy::test {
namespace {

class WanOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  }
};

TEST_P(WanOnGpu, WithinTheBoundInEachDtype) {
  WanDitCase c(GetParam());
  const auto gpu = cuda::open_gpu();
  struct Kind {
    DType activation, residual;
    double bound;
  };
  for (const Kind& kind : {Kind{DType::f32, DType::f32, 2e-5}, Kind{DType::f16, DType::f32, 1e-2},
                           Kind{DType::bf16, DType::f32, 5e-2}, Kind{DType::bf16, DType::bf16, 8e-2}}) {
    GpuRun run{*gpu, kind.activation, kind.residual};
    auto y = c.run(run);
    const auto name = fmt::format("{}_{}", dtype_name(kind.activation), dtype_name(kind.residual));
    EXPECT_LE(c.error(y), kind.bound) << name;
    RecordProperty("error_" + name, fmt::format("{:.2e}", c.error(y)));
    EXPECT_EQ(y, c.run(run)) << name << ": another run gives other bits";
  }
}

// TF32 has as many digits as f16, and only products are rounded to it. The weights are those of any float32
// run.
TEST_P(WanOnGpu, InTf32) {
  WanDitCase c(GetParam());
  const auto gpu = cuda::open_gpu();
  if (gpu->info().capability() < 80) GTEST_SKIP() << "TF32 needs compute capability 8.0";
  GpuRun ieee{*gpu, DType::f32, DType::f32}, run{*gpu, DType::f32, DType::f32, Products::tf32};
  auto y = c.run(run);
  EXPECT_NE(y, c.run(ieee)) << "the products were not rounded";
  EXPECT_LE(c.error(y), 5e-3);  // values from 2e-5 to 1.3e-3 were seen on an H200
  RecordProperty("error", fmt::format("{:.2e}", c.error(y)));
  EXPECT_EQ(y, c.run(run)) << "another run gives other bits";
}

// A single pass gives the same bits as two passes.
TEST_P(WanOnGpu, NormsWriteTheCodesOfTwoPasses) {
  WanDitCase c(GetParam());
  const auto gpu = cuda::open_gpu();
  for (const DType residual : {DType::f32, DType::bf16}) {
    GpuRun run{*gpu, DType::bf16, residual, Products::e4m3};
    ::setenv("TACHY_NORM_CODES", "0", 1);
    const auto two = c.run(run);
    ::unsetenv("TACHY_NORM_CODES");
    EXPECT_EQ(c.run(run), two) << dtype_name(residual);
  }
}

TEST_P(WanOnGpu, AdaptersOfEveryLayerAreAsMerged) {
  const auto gpu = cuda::open_gpu();
  for (const auto& [dtype, bound] : {std::pair{DType::f32, 4e-5}, std::pair{DType::bf16, 8e-2}}) {
    WanDitCase adapted(GetParam()), merged(GetParam());
    const WanAdapters made(adapted);
    adapted.adapters = made.all, merged.weights = made.merged(made.all);
    GpuRun run{*gpu, dtype, DType::f32};
    test::PlannedRun host;
    auto got = adapted.run(run), want = merged.run(host);
    const Tensor sample = adapted.golden["sample"];
    EXPECT_LE(error_of(Tensor(got.data(), DType::f32, sample.shape()),
                       Tensor(want.data(), DType::f32, sample.shape())),
              bound)
        << dtype_name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WanOnGpu,
                         testing::Values("t2v", "t2v_bf16", "plain_cross", "i2v", "ti2v", "flf2v", "talk"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tachy::test
