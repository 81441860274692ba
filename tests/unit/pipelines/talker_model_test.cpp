// Tests the talking photo that ships, models/talker: the original repositories' layout with a model of its
// own in it. Settings that Wan's files leave to code are in headers here, and generation_config.json names
// InfiniteTalk's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/memory_plan.h"
#include "host_device.h"
#include "request/stage_plan.h"
#include "talk_model.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kTalker = fs::path(TACHY_TEST_MODELS) / "talker";

// The model's folder with other defaults; everything else in it is a link to the original.
struct Changed {
  explicit Changed(const std::string& defaults) {
    for (const fs::directory_entry& item : fs::directory_iterator(kTalker))
      if (item.path().filename() != "generation_config.json")
        fs::create_symlink(item.path(), scratch.path / item.path().filename());
    std::ofstream(scratch.path / "generation_config.json") << defaults;
  }
  test::ScratchFolder scratch;
};

TEST(TalkerModel, ConfigsComeFromHeadersAndShapes) {
  const ModelBundle m = ModelBundle::open(kTalker);
  EXPECT_EQ(m.files.layout, ModelFiles::Layout::original);
  ASSERT_TRUE(m.dit.audio_branch());
  EXPECT_EQ(m.dit.image_dim, 128) << "not Wan's 1280, which its config does not say";
  EXPECT_EQ(m.clip.hidden_size, 128);
  EXPECT_EQ(m.clip.num_heads, 2) << "shapes do not tell";
  EXPECT_EQ(m.vae_config.base_dim, 16);
  EXPECT_NE(m.vae_config.latents_mean, VaeConfig::wan21().latents_mean);
  ASSERT_NE(m.audio_encoder, nullptr);
  EXPECT_TRUE(m.audio_standardised);
  EXPECT_EQ(m.defaults.window_frames, 33);
  EXPECT_EQ(*m.defaults.fps, 25);
}

TEST(TalkerModel, WindowsAreItsOwnUnlessTheRequestSaysOtherwise) {
  TextToVideo pipeline(ModelBundle::open(kTalker), {.threads = 2});
  VideoRequest request;
  request.image = std::make_shared<Picture>(Picture{4, 4, std::vector<uint8_t>(48, 90)});
  request.speech = test::voice(60);
  EXPECT_EQ(pipeline.resolved(request).talk.window, 33);
  EXPECT_EQ(pipeline.resolved(request).talk.count(), 3);
  request.window_frames = 61;
  EXPECT_EQ(pipeline.resolved(request).talk.count(), 1);
}

// The transformer stays loaded for the next window while one is decoded, and the decoder needs more memory
// beside it than denoising does: so as many blocks are streamed as the decoder requires.
TEST(TalkerModel, BlocksMakeRoomForTheDecoderBetweenWindows) {
  VideoRequest request;
  request.image = std::make_shared<Picture>(Picture{4, 4, std::vector<uint8_t>(48, 90)});
  request.speech = test::voice(60);
  request.width = request.height = 256;
  const auto plan_of = [&](uint64_t max_vram) {
    TextToVideo pipeline(ModelBundle::open(kTalker),
                         {.threads = 2,
                          .weights = WeightMode::packed,
                          .max_vram = max_vram,
                          .memory = std::make_shared<test::HostDevice>(size_t{4} << 30)});
    Resolved r = pipeline.resolved(request);
    r.speech = request.speech->samples;
    return pipeline.prepare(std::move(r)).plan;
  };
  const VideoPlan all = plan_of(plan_of(0).peak_bytes - 1);  // it decodes one latent frame at a time
  ASSERT_EQ(all.vae_latents, 1);
  const StagePlan &denoise = stage_plan(all, "denoise"), &decode = stage_plan(all, "decode");
  ASSERT_EQ(denoise.streamed, 0);
  ASSERT_GE(denoise.blocks, 6);
  ASSERT_EQ(all.peak_bytes, bytes_of(all, decode));
  ASSERT_GT(decode.weight_bytes, denoise.weight_bytes);
  // All of six blocks are streamed through two slots: four are saved.
  const uint64_t saved = 4 * denoise.block_bytes;
  for (const uint64_t less : {uint64_t{1}, denoise.block_bytes, saved}) {
    const VideoPlan plan = plan_of(all.peak_bytes - less);
    EXPECT_LE(plan.peak_bytes, plan.budget_bytes) << less;
    EXPECT_GE(stage_plan(plan, "denoise").streamed, 3) << less;
  }
  EXPECT_GT(plan_of(all.peak_bytes - saved - 1).peak_bytes, all.peak_bytes - saved - 1);
}

TEST(TalkerModel, AFileOfAnotherFolderIsRefused) {
  for (const char* name :
       {"../infinitetalk.safetensors", "/etc/passwd", "..", "audio_encoder/model.safetensors"}) {
    const Changed changed(fmt::format(R"({{"infinitetalk": "{}"}})", name));
    try {
      ModelBundle::open(changed.scratch.path);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt) << name;
      EXPECT_THAT(e.message(), HasSubstr("the name of a file beside it")) << name;
    }
  }
}

TEST(TalkerModel, WithoutItsNameThereIsNoAudioBranch) {
  const Changed changed("{}");
  EXPECT_FALSE(ModelBundle::open(changed.scratch.path).dit.audio_branch());
}

}  // namespace
}  // namespace tachy
