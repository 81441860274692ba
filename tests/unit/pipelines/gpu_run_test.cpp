// Runs of the shipped model on a GPU: offloading, graphs, the step cache, a full GPU, damaged weights,
// ctrl-C. Skipped, with the reason, where there is none. TACHY_MODEL_DIR may name another folder of models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/env.h"
#include "host_device.h"
#include "pipelines/text_to_video.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

std::string model_folder() {
  return (std::filesystem::path(env_string("TACHY_MODEL_DIR", TACHY_TEST_MODELS)) / "sprites").string();
}

constexpr uint64_t kLibraries = uint64_t{400} << 20;  // of memory_plan.cpp

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    request.prompt = "a red circle moves right";
    request.width = request.height = 64, request.frames = 1, request.steps = 4;
  }
  static std::unique_ptr<TextToVideo> open(TextToVideo::Options options = {},
                                           const std::string& model = model_folder()) {
    options.device = "cuda";
    return std::make_unique<TextToVideo>(ModelBundle::open(model), options);
  }
  Error failure(TextToVideo& pipeline, const VideoCallbacks& callbacks = {}) {
    try {
      test::run(pipeline, request, callbacks);
    } catch (const Error& e) {
      return e;
    }
    ADD_FAILURE() << "it succeeded";
    return Error(ErrorCode::internal, "no error");
  }
  VideoRequest request;
};

TEST_F(OnGpu, OffloadingGivesTheSameBitsInThePlannedMemory) {
  const auto whole = open();
  const auto expected = test::run(*whole, request);
  EXPECT_EQ(test::run(*whole, request).latents, expected.latents) << "two runs differ";
  const VideoPlan plan = whole->plan(request);
  int64_t streamed = 0;
  const uint64_t step = plan.peak_bytes / 24 + 1;
  for (uint64_t budget = plan.peak_bytes; budget > step; budget -= step)
    for (const bool graphs : {true, false}) {
      const auto small = open({.graphs = graphs, .max_vram = budget + kLibraries});
      const VideoPlan now = small->plan(request);
      if (now.peak_bytes > budget) continue;
      const auto result = test::run(*small, request);
      EXPECT_EQ(result.latents, expected.latents) << budget << (graphs ? "" : ", no graphs");
      EXPECT_EQ(result.rgb, expected.rgb);
      EXPECT_EQ(small->gpu()->peak_bytes(), now.peak_bytes) << budget;
      EXPECT_EQ(small->gpu()->live_bytes(), 0u);
      for (const StagePlan& s : now.stages) streamed = std::max(streamed, s.streamed);
    }
  EXPECT_GT(streamed, 0) << "no budget streamed a block";
}

TEST_F(OnGpu, TheTextEncoderStreamsToo) {
  const ModelBundle model = ModelBundle::open(model_folder());
  const auto gpu = cuda::open_gpu();
  ThreadPool pool(2);
  const Stream stream{.pool = &pool, .gpu = gpu.get(), .memory = gpu.get(), .activation = DType::bf16};
  const auto plain = test::encode_streamed(model, 0, stream);
  EXPECT_EQ(test::encode_streamed(model, model.text.num_layers, stream), plain);
  EXPECT_EQ(gpu->live_bytes(), 0u);
}

TEST_F(OnGpu, GraphsAndResidualsAndLevels) {
  const auto with = open(), without = open({.graphs = false});
  EXPECT_EQ(test::run(*with, request).rgb, test::run(*without, request).rgb);
  // Of the RMS; four steps at a size that the model was not trained for are far from converged.
  const auto distance = [&](const test::Result& a, const test::Result& b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.latents.size(); ++i) {
      difference += std::pow(static_cast<double>(a.latents[i]) - b.latents[i], 2);
      size += std::pow(static_cast<double>(a.latents[i]), 2);
    }
    return std::sqrt(difference / size);
  };
  const auto bf16 = test::run(*with, request);
  request.level = "none";
  const auto exact = test::run(*with, request);
  EXPECT_LT(distance(exact, bf16), 0.15);
  EXPECT_GT(distance(exact, bf16), 0);
  request.level = "aggressive";
  const auto aggressive = test::run(*with, request);
  EXPECT_LT(distance(exact, aggressive), 0.15);
  EXPECT_NE(aggressive.latents, bf16.latents) << "the residual stream stayed in float32";
  request.level = "safe", request.residual = "bf16";
  EXPECT_EQ(test::run(*with, request).latents, aggressive.latents);
}

TEST_F(OnGpu, TheStepCacheReusesSteps) {
  request.steps = 20, request.frames = 5, request.width = request.height = 128;
  const auto pipeline = open();
  const auto all = test::run(*pipeline, request);
  request.level = "extreme", request.step_cache = 0.3;
  VideoCallbacks callbacks;
  int frames = 0;
  callbacks.frame = [&](const RgbImage&, int64_t) { ++frames; };
  const ResolvedRequest done = pipeline->generate(request, callbacks);
  EXPECT_GT(done.steps_reused, 0);
  EXPECT_LT(done.steps_reused, 18);
  EXPECT_EQ(frames, 5);
  EXPECT_EQ(test::run(*pipeline, request).rgb, test::run(*pipeline, request).rgb);
  request.step_cache = 0, request.residual = "f32";
  EXPECT_EQ(test::run(*pipeline, request).latents, all.latents) << "with neither it is level safe";
}

TEST_F(OnGpu, AFullGpuIsAnErrorWithTheTable) {
  const auto pipeline = open();
  const VideoPlan plan = pipeline->plan(request);
  const auto other = cuda::open_gpu();
  Buffer hog;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {  // somebody else takes the memory between two stages
    if (p.stage != "text" || p.done != p.total || hog.data()) return;
    for (size_t left = other->free_bytes(); left > 0; left -= std::min(left, size_t{1} << 20)) try {
        hog = Buffer(left, other.get());
        break;
      } catch (const Error&) {
      }
  };
  const Error e = failure(*pipeline, callbacks);
  EXPECT_EQ(e.code(), ErrorCode::out_of_memory) << e.message();
  EXPECT_THAT(e.message(), HasSubstr("held here:"));
  EXPECT_THAT(e.message(), testing::StartsWith("denoise: "));
  std::printf("%s\n", e.message().c_str());
  EXPECT_EQ(pipeline->gpu()->live_bytes(), 0u);
  // Before the start it is refused, with what would fit.
  const Error refused = failure(*pipeline);
  EXPECT_EQ(refused.code(), ErrorCode::out_of_memory);
  EXPECT_THAT(refused.message(), HasSubstr("this run needs"));
  std::printf("%s\n", refused.message().c_str());
  hog = {};
  EXPECT_EQ(test::run(*pipeline, request).frames, 1);
}

TEST_F(OnGpu, NaNInWeightsNamesTheStage) {
  struct Plant {
    const char *part, *tensor, *says;
  };
  for (const Plant& plant : {Plant{"text_encoder", "encoder.final_layer_norm.weight", "text encoder"},
                             Plant{"transformer", "blocks.1.attn1.to_q.bias", "transformer"},
                             Plant{"transformer", "condition_embedder.time_proj.bias", "transformer"},
                             Plant{"vae", "decoder.conv_out.bias", "vae"},
                             Plant{"vae", "decoder.mid_block.attentions.0.to_qkv.weight", "vae"}}) {
    const test::ScratchFolder scratch;
    const auto folder = scratch.path / "model";
    std::filesystem::copy(model_folder(), folder, std::filesystem::copy_options::recursive);
    bool found = false;
    test::edit_weights(folder, plant.part, [&](const std::string& name, Tensor t) {
      if (name == plant.tensor) test::fill_nan(t), found = true;
      return true;
    });
    ASSERT_TRUE(found) << plant.tensor;
    const auto pipeline = open({}, folder);
    const Error e = failure(*pipeline);
    EXPECT_EQ(e.code(), ErrorCode::numerical) << plant.tensor << ": " << e.message();
    EXPECT_THAT(e.message(), HasSubstr(plant.says)) << plant.tensor;
  }
}

TEST_F(OnGpu, CancelStopsWithinAStep) {
  request.steps = 50;
  const auto pipeline = open();
  std::atomic<bool> cancel{false};
  VideoCallbacks callbacks{.cancel = &cancel};
  int64_t last = 0;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "denoise") last = p.done;
    if (p.stage == "denoise" && p.done == 7) cancel = true;
  };
  EXPECT_EQ(failure(*pipeline, callbacks).code(), ErrorCode::cancelled);
  EXPECT_LE(last, 8);
  EXPECT_EQ(pipeline->gpu()->live_bytes(), 0u);
  cancel = false, callbacks.progress = {};
  EXPECT_EQ(test::run(*pipeline, request, callbacks).frames, 1);
}

}  // namespace
}  // namespace tachy
