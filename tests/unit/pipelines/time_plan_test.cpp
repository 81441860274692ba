// Predictions for GPUs that are not here are compared with measurements: the figures of docs/speed.md and
// bench/notes, all from one H200.
#include "estimate/time_plan.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "catalog/part_files.h"
#include "cuda/absent_gpu.h"
#include "cuda/gpu_sheet.h"
#include "engine/memory_plan.h"
#include "request/stage_plan.h"
#include "shape_model.h"
#include "time_plan_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

class WithCapability {
 public:
  explicit WithCapability(const char* value) { ::setenv("TACHY_CUDA_CAPABILITY", value, 1); }
  ~WithCapability() { ::unsetenv("TACHY_CUDA_CAPABILITY"); }
};

TEST(TimePlan, ForwardPassesOfAnH200WithinATenth) {
  const struct {
    const char* shape;
    int width, height;
    const char *math, *attention;
    double seconds;
  } measured[] = {
      {"1.3B", 832, 480, "auto", "auto", 0.395}, {"1.3B", 832, 480, "fp8", "auto", 0.370},
      {"1.3B", 832, 480, "auto", "int8", 0.345}, {"1.3B", 832, 480, "fp8", "int8", 0.308},
      {"14B", 832, 480, "auto", "auto", 2.327},  {"14B", 832, 480, "fp8", "auto", 1.876},
      {"14B", 832, 480, "auto", "int8", 2.139},  {"14B", 832, 480, "fp8", "int8", 1.639},
      {"14B", 1280, 720, "auto", "auto", 8.973}, {"14B", 1280, 720, "fp8", "int8", 6.620},
      {"14B", 1280, 720, "auto", "int8", 7.756},
  };
  for (const auto& m : measured) {
    VideoRequest r = one_pass(m.width, m.height);
    r.math = m.math, r.attention = m.attention;
    expect_near(stage(plan(m.shape, r, "h200"), "denoise"), m.seconds,
                fmt::format("{} {}p math {} attention {}", m.shape, m.height, m.math, m.attention));
  }
}

// The GPU chose as an 8.0 would (bench/notes/mma_table.md). For 14B 8 of the 40 blocks were measured: 675.4 and 526.1 ms.
TEST(TimePlan, ForwardPassesOfAnH200AsAnOlderGpu) {
  const WithCapability older("80");
  const struct {
    const char *shape, *eight_bits;
    double seconds;
  } measured[] = {
      {"1.3B", "auto", 0.6065}, {"14B", "auto", 3.377}, {"1.3B", "int8", 0.5008}, {"14B", "int8", 2.630}};
  for (const auto& m : measured) {
    VideoRequest r = one_pass(832, 480);
    r.math = r.attention = m.eight_bits;
    expect_near(stage(plan(m.shape, r, "h200"), "denoise"), m.seconds,
                fmt::format("{} {}", m.shape, m.eight_bits));
  }
}

TEST(TimePlan, DecodingOnAnH200) {
  expect_near(stage(plan("1.3B", one_pass(832, 480), "h200"), "decode"), 0.388, "480p");
  expect_near(stage(plan("1.3B", one_pass(1280, 720), "h200"), "decode"), 0.881, "720p");
}

// Returns the times of encoding and decoding as bench/peers/ours_gpu.cpp measures them; the sizes are the
// latents' frames, rows and columns.
Seconds vae_alone(const std::shared_ptr<TensorSource>& source, const VaeConfig& c, Products products,
                  bool encodes, std::array<int64_t, 3> latent) {
  const GpuRates& rates = find_gpu_rates("h200");
  const auto gpu = cuda::absent_gpu(facts_of(rates));
  ThreadPool pool(1);
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool, .gpu = gpu.get(), .memory = gpu.get()};
  stream.precision = {.activation = DType::bf16, .residual = DType::f32, .products = products};
  WorkTally tally;
  const WorkTally::Counting counting(tally);
  const auto work = [&](const Scope& scope) {
    nn::ParamStore store({.plan_only = true}, stream);
    const auto [t, h, w] = latent;
    const int64_t s = c.spatial_stride();
    const Tensor video = store.allocate(DType::f32, {c.pixel_frames(t), h * s, w * s, 3}),
                 latents = store.allocate(DType::f32, {c.z_dim, t, h, w});
    if (encodes)
      VaeEncoder(scope, c, {.logvar = false}, stream).encode(video, latents, Tensor(), stream);
    else
      VaeDecoder(scope, c, {.normalised = false}, stream)
          .decode(
              latents, [](const Tensor&, int64_t) {}, stream, 1);
    return 0;
  };
  load_component(source, "vae", {"encoder.", "decoder.", "quant_conv.", "post_quant_conv."}, work);
  return seconds_of(tally.stages().at(0).second, rates);
}

TEST(TimePlan, TheVaeAloneOnAnH200) {
  const VaeFiles files = open_vae(model("1.3B").folder);
  const auto seconds = [&](Products products, bool encodes) {
    return vae_alone(files.source, files.config, products, encodes, {21, 60, 104});
  };
  expect_near(seconds(Products::as_activations, true), 0.241, "encode");
  expect_near(seconds(Products::e4m3, true), 0.1776, "encode, e4m3");
  expect_near(seconds(Products::e4m3, false), 0.2763, "decode, e4m3");
}

TEST(TimePlan, Wan22sDecoderOnAnH200) {
  const ScratchFolder scratch;
  write_sparse(scratch.path / "vae.safetensors", read_json(golden_path("vae/names_wan22.json")).get<Shapes>(),
               DType::f32);
  expect_near(vae_alone(open_safetensors(scratch.path / "vae.safetensors"), VaeConfig::wan22(),
                        Products::as_activations, false, {31, 44, 80}),
              2.442, "121x704x1280");
}

TEST(TimePlan, AnA100IsSlowerAndAnL4LetsBlocksPass) {
  const TimePlan h200 = plan("14B", one_pass(832, 480), "h200"),
                 a100 = plan("14B", one_pass(832, 480), "a100"), l4 = plan("14B", one_pass(832, 480), "l4");
  EXPECT_GT(a100.seconds.least, 2.5 * h200.seconds.least);
  EXPECT_LT(a100.seconds.most, 4.5 * h200.seconds.most);
  EXPECT_GT(l4.seconds.least, 2.5 * a100.seconds.least);
  EXPECT_EQ(stage_plan(a100.plan, "denoise").streamed, 0);
  EXPECT_GT(stage_plan(l4.plan, "denoise").streamed, 4);
  EXPECT_LE(l4.plan.peak_bytes, l4.plan.budget_bytes);
  EXPECT_TRUE(h200.seen);
  EXPECT_FALSE(a100.seen);
}

// The sizes of a file and of an arena need no GPU: problems with memory show here first.
TEST(TimePlan, MemoryOf14BAt720p) {
  VideoRequest r = one_pass(1280, 720);
  EXPECT_LT(plan("14B", r, "h200").plan.peak_bytes / 0x1p30, 30.1);
  r.math = "fp8";
  ::setenv("TACHY_NORM_CODES", "0", 1);
  const TimePlan bare = plan("14B", r, "h200");
  ::unsetenv("TACHY_NORM_CODES");
  EXPECT_LT(bare.plan.peak_bytes / 0x1p30, 15.5) << "keys and values of the text visit";
  const TimePlan whole = plan("14B", r, "h200"), limited = plan("14B", r, "h200", uint64_t{14} << 30);
  const double codes = 21 * 45 * 80 * (5120.0 + 4);  // the norms' output, and its scales
  EXPECT_NEAR(static_cast<double>(whole.plan.peak_bytes - bare.plan.peak_bytes), codes, 4096);
  EXPECT_LT(limited.plan.peak_bytes / 0x1p30, 14.0);
  EXPECT_NEAR(limited.seconds.middle() / whole.seconds.middle(), 1, 0.01) << "copies hide behind the blocks";
}

// The work of the steps after the second is counted by multiplication.
TEST(TimePlan, StepsAddUp) {
  VideoRequest r = one_pass(832, 480);
  const Seconds one = stage(plan("1.3B", r, "h200"), "denoise");
  r.steps = 21;
  const Seconds many = stage(plan("1.3B", r, "h200"), "denoise");
  EXPECT_NEAR(many.middle() / (21 * one.middle()), 1, 0.01);
}

TEST(TimePlan, WhatIsNotKnownIsNotPredicted) {
  const auto refused = [&](const char* gpu, const VideoRequest& r) -> std::string {
    try {
      plan("1.3B", r, gpu);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  VideoRequest r = one_pass(832, 480);
  EXPECT_THAT(
      refused("v100", r),
      HasSubstr("`gpu`: expected one of h200, h100, a100, a10, l4, l40s, t4, 3090, 4090, 5090, got 'v100'"));
  r.math = "fp8";
  EXPECT_THAT(refused("a100", r), HasSubstr("`gpu`: how fast products of f8_e4m3 run on an NVIDIA A100"));
  r.math = "int8", r.attention = "int8";
  EXPECT_EQ(refused("a100", r), "");
  r.residual.reset();
  EXPECT_THAT(refused("t4", r), HasSubstr("compute capability 8.0"));
  r.attention = "auto";
  EXPECT_EQ(refused("t4", r), "") << "it multiplies int8 beside f16";
}

// A prediction for a card is never above its data sheet, and cards that multiply faster are predicted to be faster.
TEST(TimePlan, CardsThatNobodyRanStayBelowTheirDataSheets) {
  for (const cuda::GpuSheet& sheet : cuda::gpu_sheets()) {
    const GpuRates& r = find_gpu_rates(sheet.name);
    EXPECT_EQ(r.capability, sheet.capability) << sheet.title;
    if (r.seen) continue;
    EXPECT_LT(r.product.most, sheet.half) << sheet.title;
    EXPECT_LT(r.product_int8.most, sheet.int8) << sheet.title;
    EXPECT_LT(r.convolution.most, sheet.half) << sheet.title;
    EXPECT_LT(r.memory.most, sheet.memory) << sheet.title;
    EXPECT_EQ(facts_of(r).shared_bytes, static_cast<size_t>(sheet.shared_kib) << 10) << sheet.title;
    EXPECT_EQ(cuda::sheet_of(facts_of(r)), nullptr) << "a title is not a driver's name";
  }
  VideoRequest r = one_pass(832, 480);
  r.residual.reset();  // a T4 has f16, the others bf16
  for (const auto& cards : {std::vector{"5090", "4090", "3090", "t4"}, {"a100", "a10", "l4", "t4"}}) {
    double before = 0;
    for (const char* gpu : cards) {
      const double seconds = stage(plan("1.3B", r, gpu), "denoise").middle();
      EXPECT_GT(seconds, before) << gpu;
      before = seconds;
    }
  }
}

TEST(TimePlan, EveryRateHasItsSource) {
  for (const GpuRates& row : gpu_rates())
    for (const Rate* rate :
         {&row.product, &row.product_fp8, &row.product_int8, &row.product_f32, &row.attention,
          &row.attention_int8, &row.convolution, &row.convolution_fp8, &row.memory, &row.transfer}) {
      EXPECT_LE(rate->least, rate->most) << row.title;
      EXPECT_GT(std::string(rate->source).size(), 10u) << row.title;
    }
}

TEST(AbsentGpu, NothingCanBeDoneThere) {
  const auto gpu = cuda::absent_gpu({.name = "NVIDIA X", .major = 8, .memory_bytes = size_t{8} << 30});
  EXPECT_TRUE(cuda::is_absent(gpu.get()));
  EXPECT_FALSE(cuda::is_absent(nullptr));
  EXPECT_THROW(gpu->allocate(16), Error);
  EXPECT_LT(gpu->free_bytes(), size_t{8} << 30);
}

}  // namespace
}  // namespace tachy::test
