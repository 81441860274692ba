// Tests the VAE's convolutions in 8 bits (`vae_math` fp8 and int8): they are requested separately, refused if not
// available, planned to the byte, and a separate part beside the VAE of another run.
#include "session/vae_math.h"

#include <gmock/gmock.h>

#include "cuda/absent_gpu.h"
#include "estimate/gpu_rates.h"
#include "estimate/time_plan.h"
#include "tiny_model.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kSprites = TACHY_TEST_MODELS "/sprites";

VideoRequest request_of(const char* vae_math) {
  VideoRequest request = short_request();
  request.steps = 1, request.vae_math = vae_math;
  return request;
}

TEST(VaeMath, OnlyEightBitsAreAnythingElseThanTheActivations) {
  // Level extreme computes in this precision on Hopper.
  const Precision eight_bits{.activation = DType::bf16, .products = Products::e4m3};
  for (const Precision& p : {Precision(), eight_bits, Precision{.definitions = true}})
    for (const char* word : {"auto", "activations"})
      EXPECT_EQ(vae_products(word, VaeConfig::wan21(), p, nullptr), Products::as_activations) << word;
  EXPECT_EQ(vae_products("fp8", VaeConfig::wan21(), {}, nullptr), Products::e4m3);
  EXPECT_EQ(vae_products("int8", VaeConfig::wan21(), {}, nullptr), Products::int8);
  EXPECT_THAT(
      refusal([] { vae_products("bf16", VaeConfig::wan21(), {}, nullptr); }, ErrorCode::invalid_argument),
      HasSubstr("`vae_math`: expected auto, activations, fp8 or int8, got 'bf16'"));
}

TEST(VaeMath, WhatHasNoConvolutionForItRefusesIt) {
  const auto on = [](const char* gpu, DType activation, const char* word = "fp8") {
    return [=] {
      vae_products(word, VaeConfig::wan22(), {.activation = activation},
                   cuda::absent_gpu(facts_of(find_gpu_rates(gpu))).get());
    };
  };
  on("h100", DType::bf16)();
  on("l4", DType::bf16)();
  for (const char* gpu : {"a100", "3090", "l4", "h100"}) on(gpu, DType::bf16, "int8")();
  EXPECT_THAT(refusal(on("t4", DType::bf16, "int8"), ErrorCode::unsupported),
              AllOf(HasSubstr("`vae_math`: int8"), HasSubstr("8.0 or later"), HasSubstr("7.5")));
  EXPECT_THAT(refusal(on("a100", DType::bf16), ErrorCode::unsupported),
              AllOf(HasSubstr("`vae_math`"), HasSubstr("8.9 or later"), HasSubstr("8.0")));
  EXPECT_THAT(refusal(on("h100", DType::f32), ErrorCode::invalid_argument), HasSubstr("`dtype` is f32"));
  EXPECT_THAT(refusal([] { vae_products("fp8", VaeConfig::wan21(), {.definitions = true}, nullptr); },
                      ErrorCode::invalid_argument),
              HasSubstr("level none"));
  // The tiny model's VAE has 2 to 8 channels.
  TextToVideo tiny(ModelBundle::open(model_path()), {.threads = 1});
  EXPECT_THAT(refusal([&] { tiny.plan(request_of("fp8")); }, ErrorCode::unsupported),
              HasSubstr("32 channels"));
  EXPECT_THAT(refusal([&] { plan_time({.model = kSprites, .gpu = "a100"}, request_of("fp8")); },
                      ErrorCode::unsupported),
              HasSubstr("8.9 or later"));
}

TEST(VaeMath, PeakIsThePlanAndFramesAreOtherOnes) {
  Result frames[3];
  uint64_t weights[3] = {};
  const char* const words[] = {"auto", "fp8", "int8"};
  for (const int way : {0, 1, 2}) {
    TextToVideo pipeline(ModelBundle::open(kSprites), {.threads = 2});
    const VideoRequest request = request_of(words[way]);
    const VideoPlan plan = pipeline.plan(request);
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    frames[way] = run(pipeline, request);
    EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << words[way];
    for (const StagePlan& s : plan.stages)
      if (s.name == "decode") weights[way] = s.weight_bytes;
  }
  EXPECT_EQ(frames[0].latents, frames[1].latents) << "the VAE comes behind them";
  EXPECT_NE(frames[0].rgb, frames[1].rgb);
  EXPECT_NE(frames[0].rgb, frames[2].rgb);
  EXPECT_NE(frames[1].rgb, frames[2].rgb);
  EXPECT_NE(weights[0], weights[1]) << "the plan is not of the VAE that runs";
  EXPECT_EQ(run(kSprites, request_of("fp8"), {.threads = 1}).rgb, frames[1].rgb);
  EXPECT_EQ(run(kSprites, request_of("activations")).rgb, frames[0].rgb);
}

// If models stay loaded, a run does not get the VAE of the previous one.
TEST(VaeMath, ARunGetsItsOwnVaeWhereModelsStayLoaded) {
  EXPECT_NE(PartKey(Part::vae_decoder, {}, {}, Products::e4m3), PartKey(Part::vae_decoder, {}));
  EXPECT_NE(PartKey(Part::vae_decoder, {}, {}, Products::e4m3),
            PartKey(Part::vae_decoder, {}, {}, Products::int8));
  EXPECT_EQ(PartKey(Part::transformer, {}, {}, Products::e4m3), PartKey(Part::transformer, {}));
  TextToVideo pipeline(ModelBundle::open(kSprites), {.threads = 2, .keep_loaded = true});
  const auto first = run(pipeline, request_of("auto")), codes = run(pipeline, request_of("fp8")),
             again = run(pipeline, request_of("auto"));
  EXPECT_NE(first.rgb, codes.rgb);
  EXPECT_EQ(first.rgb, again.rgb);
}

// `math` and the levels are about the transformer.
TEST(VaeMath, KeysInEightBitsNeedAttentionInEightBits) {
  VideoRequest request = request_of("auto");
  request.int8_keys = "all";
  TextToVideo pipeline(ModelBundle::open(model_path()), {.threads = 1});
  EXPECT_THAT(refusal([&] { pipeline.plan(request); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`int8_keys`"), HasSubstr("`attention` int8")));
  request.attention = "int8";
  plan_time({.model = kSprites, .gpu = "h100"}, request);
}

}  // namespace
}  // namespace tachy::test
