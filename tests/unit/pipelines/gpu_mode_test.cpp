// Tests the meaning of levels and dtypes on a GPU, also on one without bf16.
#include "request/gpu_mode.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "request/level.h"
#include "runtime/step_graph.h"
#include "session/part_cache.h"

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

ErrorCode code_of(std::string_view level, std::string_view dtype = {}) {
  try {
    gpu_mode(level, dtype);
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::internal;
}

TEST(GpuMode, EachLevelAddsToTheOneBefore) {
  ASSERT_EQ(gpu_levels().size(), levels().size());
  for (size_t i = 0; i < levels().size(); ++i) EXPECT_STREQ(gpu_levels()[i].name, levels()[i].name);
  const GpuMode none = gpu_mode("none"), safe = gpu_mode("safe"), aggressive = gpu_mode("aggressive"),
                extreme = gpu_mode("extreme");
  EXPECT_EQ(none.activation, DType::f32);
  EXPECT_FALSE(none.graphs);
  EXPECT_EQ(safe.activation, DType::bf16);
  EXPECT_EQ(safe.residual, DType::f32);
  EXPECT_TRUE(safe.graphs);
  EXPECT_EQ(aggressive.residual, DType::bf16);
  EXPECT_EQ(aggressive.step_cache, 0);
  EXPECT_EQ(extreme.residual, DType::bf16);
  EXPECT_EQ(extreme.step_cache, find_level("extreme").mode.step_cache);
}

TEST(GpuMode, ADtypeReplacesTheLevels) {
  EXPECT_EQ(gpu_mode("safe", "f16").activation, DType::f16);
  EXPECT_EQ(gpu_mode("safe", "f16").residual, DType::f32);
  EXPECT_EQ(gpu_mode("aggressive", "f16").residual, DType::f16) << "it is the activations' dtype";
  EXPECT_EQ(gpu_mode("extreme", "f32").residual, DType::f32);
  EXPECT_TRUE(gpu_mode("none", "f32") == gpu_mode("none"));
  EXPECT_EQ(code_of("none", "bf16"), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("safe", "f8"), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("warp"), ErrorCode::invalid_argument);
}

TEST(GpuMode, EachSwitchAlone) {
  setenv("TACHY_GRAPHS", "off", 1);
  EXPECT_FALSE(gpu_mode("safe").graphs);
  setenv("TACHY_GRAPHS", "maybe", 1);
  EXPECT_EQ(code_of("safe"), ErrorCode::invalid_argument);
  unsetenv("TACHY_GRAPHS");
  setenv("TACHY_RESIDUAL", "low", 1);
  EXPECT_EQ(gpu_mode("safe").residual, DType::bf16);
  EXPECT_EQ(gpu_mode("safe", "f16").residual, DType::f16);
  setenv("TACHY_RESIDUAL", "f32", 1);
  EXPECT_EQ(gpu_mode("aggressive").residual, DType::f32);
  setenv("TACHY_RESIDUAL", "f64", 1);
  EXPECT_EQ(code_of("safe"), ErrorCode::invalid_argument);
  unsetenv("TACHY_RESIDUAL");
}

TEST(GpuMode, AttentionInEightBitsNeedsBf16AndItsGpus) {
  const auto code = [](const char* dtype, int capability) {
    try {
      EXPECT_TRUE(gpu_mode("safe", dtype, capability, "", "int8").attention_int8);
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("`attention`"), std::string::npos) << e.message();
      return std::optional(e.code());
    }
    return std::optional<ErrorCode>();
  };
  EXPECT_EQ(code("", 90), std::nullopt);
  for (const int capability : {80, 86, 89, 100, 120}) EXPECT_EQ(code("", capability), std::nullopt);
  EXPECT_EQ(code("", 75), ErrorCode::unsupported);
  EXPECT_EQ(code("f16", 90), ErrorCode::invalid_argument);
  for (const GpuLevel& level : gpu_levels()) EXPECT_FALSE(gpu_mode(level.name).attention_int8) << level.name;
}

TEST(GpuMode, ProductsInEightBits) {
  const auto products = [](const char* math, const char* level = "safe", const char* dtype = "",
                           int capability = 90) {
    return gpu_mode(level, dtype, capability, "", "auto", math).products;
  };
  EXPECT_EQ(products("auto"), Products::as_activations);
  EXPECT_EQ(products("fp8"), Products::e4m3);
  EXPECT_EQ(products("int8", "aggressive", "", 80), Products::int8);
  EXPECT_EQ(products("int8", "safe", "f16", 80), Products::int8);
  EXPECT_EQ(products("int8", "safe", "", 75), Products::int8) << "a T4 has them beside f16";
  EXPECT_EQ(products("auto", "extreme"), Products::e4m3);
  EXPECT_EQ(products("bf16", "extreme"), Products::as_activations);
  EXPECT_EQ(products("auto", "extreme", "f32"), Products::as_activations);
  EXPECT_EQ(products("auto", "extreme", "", 89), Products::e4m3);
  EXPECT_EQ(products("auto", "extreme", "", 120), Products::e4m3);
  EXPECT_EQ(products("auto", "extreme", "", 86), Products::as_activations) << "e4m3 is not multiplied there";
  const auto failure = [&](const char* math, const char* dtype, int capability) {
    try {
      products(math, "safe", dtype, capability);
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("`math`"), std::string::npos) << e.message();
      return std::optional(e.code());
    }
    return std::optional<ErrorCode>();
  };
  EXPECT_EQ(failure("fp8", "f32", 90), ErrorCode::invalid_argument);
  EXPECT_EQ(failure("fp8", "f16", 90), ErrorCode::invalid_argument);
  EXPECT_EQ(failure("bf16", "f16", 90), ErrorCode::invalid_argument);
  EXPECT_EQ(failure("int8", "f32", 75), ErrorCode::invalid_argument);
  EXPECT_EQ(failure("int8", "f16", 70), ErrorCode::unsupported);
  EXPECT_EQ(failure("fp8", "", 75), ErrorCode::unsupported);
}

TEST(GpuMode, ProductsInTf32AreAChoiceForFloat32) {
  EXPECT_EQ(gpu_mode("safe", "f32", 80, "", "auto", "tf32").products, Products::tf32);
  EXPECT_EQ(gpu_mode("extreme", "f32", 90, "", "auto", "tf32").products, Products::tf32);
  for (const GpuLevel& level : gpu_levels())
    EXPECT_EQ(gpu_mode(level.name, "f32", 90).products, Products::as_activations) << level.name;
  struct Refused {
    const char *level, *dtype;
    int capability;
    ErrorCode code;
    const char* says;
  };
  for (const Refused& r : {Refused{"safe", "", 90, ErrorCode::invalid_argument, "say `dtype` f32"},
                           {"safe", "f16", 90, ErrorCode::invalid_argument, "`dtype` is f16"},
                           {"none", "", 90, ErrorCode::invalid_argument, "use `level` safe"},
                           {"safe", "f32", 75, ErrorCode::unsupported, "needs a GPU of compute"}})
    try {
      gpu_mode(r.level, r.dtype, r.capability, "", "auto", "tf32");
      ADD_FAILURE() << r.says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), r.code);
      EXPECT_NE(e.message().find("`math`"), std::string::npos) << e.message();
      EXPECT_NE(e.message().find(r.says), std::string::npos) << e.message();
    }
}

// A run in TF32 and one in float32 share their weights, but not their captured steps.
TEST(GpuMode, Tf32ReadsTheWeightsOfFloat32) {
  const Precision ieee, tf32{.products = Products::tf32}, int8{.products = Products::int8};
  EXPECT_EQ(PartKey(Part::transformer, ieee), PartKey(Part::transformer, tf32));
  EXPECT_NE(PartKey(Part::transformer, ieee), PartKey(Part::transformer, int8));
  EXPECT_NO_THROW(expect_same_products("transformer", ieee, tf32));
  EXPECT_THROW(expect_same_products("transformer", int8, tf32), Error);
  Arena arena(64);
  Stream one{.arena = &arena, .precision = ieee}, other{.arena = &arena, .precision = tf32};
  EXPECT_NE(runtime::StepSignature().add(one), runtime::StepSignature().add(other));
}

TEST(GpuMode, AttentionInBf16IsThatOfTheActivations) {
  EXPECT_FALSE(gpu_mode("aggressive", "", 90, "", "bf16").attention_int8);
  for (const char* dtype : {"f16", "f32"}) try {
      gpu_mode("safe", dtype, 90, "", "bf16");
      ADD_FAILURE() << dtype;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_NE(e.message().find("`attention`"), std::string::npos) << e.message();
    }
}

}  // namespace
}  // namespace tachy
