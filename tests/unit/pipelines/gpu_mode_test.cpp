// What levels and dtypes mean on a GPU, also one that has no bf16.
#include "pipelines/gpu_mode.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tachy {
namespace {

TEST(GpuMode, TheDtypeFollowsFromLevelAndOption) {
  EXPECT_EQ(gpu_mode("safe").activation, DType::bf16);
  EXPECT_EQ(gpu_mode("safe", "f16").activation, DType::f16);
  EXPECT_EQ(gpu_mode("none").activation, DType::f32);
}

TEST(GpuMode, AGpuWithoutBf16ComputesInF16) {
  EXPECT_EQ(gpu_mode("safe", "", 75).activation, DType::f16);
  EXPECT_EQ(gpu_mode("aggressive", "", 75).residual, DType::f16);
  EXPECT_EQ(gpu_mode("safe", "f32", 75).activation, DType::f32);
  EXPECT_EQ(gpu_mode("none", "", 75).activation, DType::f32);
}

TEST(GpuMode, AskedForBf16WhereThereIsNoneItSaysWhatWorks) {
  try {
    gpu_mode("safe", "bf16", 75);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("use f16 or f32"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace tachy
