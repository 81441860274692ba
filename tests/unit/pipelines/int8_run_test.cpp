// Tests linear layers in int8 on a CPU (`math` int8): planned to the byte, the same bits each time and for
// any number of threads, a quarter of float32's weights, frames close to float32's; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

VideoRequest int8_request() {
  VideoRequest request = test::short_request();
  request.math = "int8";
  return request;
}

std::string refusal_of_plan(const VideoRequest& request) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 1});
  try {
    pipeline.plan(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "no error";
}

TEST(Int8OnACpu, PeakIsThePlan) {
  for (const WeightMode mode : {WeightMode::automatic, WeightMode::packed, WeightMode::mapped})
    for (const int threads : {1, 3}) {
      TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = threads, .weights = mode});
      const VideoPlan plan = pipeline.plan(int8_request());
      const size_t before = Buffer::live_bytes();
      Buffer::reset_peak();
      test::run(pipeline, int8_request());
      EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes)
          << threads << " threads, mode " << static_cast<int>(mode);
    }
}

TEST(Int8OnACpu, RepeatsItselfAndStaysClose) {
  const auto wide = test::run(test::model_path(), test::short_request());
  const auto narrow = test::run(test::model_path(), int8_request(), {.threads = 1});
  EXPECT_EQ(test::run(test::model_path(), int8_request(), {.threads = 3}).latents, narrow.latents);
  EXPECT_EQ(test::run(test::model_path(), int8_request(), {.weights = WeightMode::mapped}).latents,
            narrow.latents);
  double difference = 0, size = 0;
  for (size_t i = 0; i < wide.latents.size(); ++i) {
    difference += std::pow(double{wide.latents[i]} - narrow.latents[i], 2);
    size += std::pow(double{wide.latents[i]}, 2);
  }
  EXPECT_GT(difference, 0) << "it changed nothing: did it run?";
  EXPECT_LT(std::sqrt(difference / size), 0.05);
}

// In the shipped model, whose rows are whole, the blocks' layers take a quarter of float32 in 8 bits, and the
// others take the same as before.
TEST(Int8OnACpu, WeightsTakeAQuarter) {
  TextToVideo pipeline(ModelBundle::open(TACHY_TEST_MODELS "/sprites"),
                       {.threads = 1, .weights = WeightMode::packed});
  VideoRequest request = test::short_request();
  const auto denoise = [&](const char* math) {
    request.math = math;
    for (const StagePlan& stage : pipeline.plan(request).stages)
      if (stage.name == "denoise") return stage;
    throw std::runtime_error("no denoise stage");
  };
  const StagePlan wide = denoise("auto"), narrow = denoise("int8");
  const WanConfig& dit = pipeline.model().dit;
  const auto width = static_cast<size_t>(dit.dim()), rows = static_cast<size_t>(dit.ffn_dim);
  const size_t in_blocks = static_cast<size_t>(dit.num_layers) * (6 * width * width + 2 * width * rows) * 4;
  EXPECT_LT(narrow.weight_bytes, wide.weight_bytes - in_blocks * 7 / 10);
  EXPECT_GT(narrow.weight_bytes, wide.weight_bytes - in_blocks * 3 / 4);
  std::string picks;
  for (const ops::OpPick& pick : narrow.picks)
    if (pick.op == "scaled_gemm") picks += pick.impl;
  EXPECT_THAT(picks, testing::AnyOf("amx", "vnni", "simd"));
}

TEST(Int8OnACpu, WhatDoesNotFitIsRefused) {
  VideoRequest request = int8_request();
  request.level = "none";
  EXPECT_THAT(refusal_of_plan(request), HasSubstr("`math`: level none"));
  request = int8_request(), request.math = "fp8";
  EXPECT_THAT(refusal_of_plan(request), HasSubstr("`math`: fp8 needs `device` cuda"));
  request.math = "tf32";
  EXPECT_THAT(refusal_of_plan(request), HasSubstr("`math`: tf32 needs `device` cuda"));
  request.math = "bf16";
  EXPECT_THAT(refusal_of_plan(request), HasSubstr("`math`: bf16 needs products in bf16"));
  request.dtype = "bf16";
  EXPECT_EQ(refusal_of_plan(request), "no error");
  request = int8_request(), request.dtype = "bf16";
  EXPECT_EQ(refusal_of_plan(request), "no error");
}

}  // namespace
}  // namespace tachy
