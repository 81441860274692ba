// Tests quantised files on a GPU: weights stay there as in the files, give the bits of the values that they
// stand for, and take less memory, whole or streamed. Skipped, with the reason, if there is no GPU.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/env.h"
#include "convert/convert.h"
#include "engine/text_to_video.h"
#include "tiny_model.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

using test::kLibraries;

fs::path shipped() { return fs::path(env_string("TACHY_MODEL_DIR", TACHY_TEST_MODELS)) / "sprites"; }

class StoredOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    if (cuda::open_gpu()->info().capability() < 80)
      GTEST_SKIP() << "the file with the values that are meant is in bf16, and activations here are in f16";
    request.prompt = "a red circle moves right";
    request.width = request.height = 64, request.frames = 1, request.steps = 4;
  }
  static fs::path converted(const fs::path& from, const fs::path& to, const std::string& form) {
    ConvertOptions options;
    options.to = form, options.overwrite = true;
    convert_model(from, to, {}, options);
    const fs::path config = fs::path(to).replace_extension(".json");  // needed because the model's heads are
                                                                      // not Wan's
    fs::copy_file(shipped() / "transformer/config.json", config, fs::copy_options::overwrite_existing);
    return to;
  }
  static std::unique_ptr<TextToVideo> open(const fs::path& transformer, uint64_t max_vram = 0) {
    const PartPaths parts{.text_encoder = shipped(), .vae = shipped(), .tokenizer = shipped()};
    return std::make_unique<TextToVideo>(ModelBundle::open(transformer.string(), FileAccess::map, parts),
                                         TextToVideo::Options{.device = "cuda", .max_vram = max_vram});
  }
  static uint64_t weights(const VideoPlan& plan) {
    for (const StagePlan& s : plan.stages)
      if (s.name == std::string_view("denoise")) return s.weight_bytes;
    return 0;
  }
  test::ScratchFolder folder;
  VideoRequest request;
};

TEST_P(StoredOnGpu, TheBitsOfWhatTheFileMeansInLessMemory) {
  const bool gguf = std::string(GetParam()).starts_with("gguf");
  const fs::path file =
      converted(shipped(), folder.path / (gguf ? "small.gguf" : "small.safetensors"), GetParam());
  const fs::path meant = converted(file, folder.path / "meant.safetensors", "single");
  const auto whole = open(meant), small = open(file);
  const auto expected = test::run(*whole, request), got = test::run(*small, request);
  EXPECT_EQ(got.latents, expected.latents);
  EXPECT_EQ(got.rgb, expected.rgb);
  const VideoPlan plan = small->plan(request);
  EXPECT_LT(weights(plan), weights(whole->plan(request)) * 3 / 4);

  int64_t streamed = 0;
  const uint64_t step = plan.peak_bytes / 16 + 1;
  for (uint64_t budget = plan.peak_bytes; budget > step; budget -= step) {
    const auto tight = open(file, budget + kLibraries);
    const VideoPlan now = tight->plan(request);
    if (now.peak_bytes > budget) continue;
    EXPECT_EQ(test::run(*tight, request).latents, expected.latents) << budget;
    for (const StagePlan& s : now.stages) streamed = std::max(streamed, s.streamed);
  }
  EXPECT_GT(streamed, 0) << "no budget streamed a block";
}

INSTANTIATE_TEST_SUITE_P(Forms, StoredOnGpu,
                         testing::Values("gguf:Q4_0", "gguf:Q5_1", "gguf:Q8_0", "fp8", "int8"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name,
                                         [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

}  // namespace
}  // namespace tachy
