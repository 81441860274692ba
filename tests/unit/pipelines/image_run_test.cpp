// Image-to-video is compared with diffusers' WanImageToVideoPipeline (tests/golden/image_pipeline/make.py):
// the condition, the final latents, the frames. Further tests cover the plan, and which pictures are accepted
// and which refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image_model.h"
#include "resolve/resolve.h"
#include "stages/condition.h"

namespace tachy {
namespace {

using test::GoldenFile;
using test::image_run;
using test::ImageRun;
using testing::AllOf;
using testing::HasSubstr;

class ImageRuns : public testing::TestWithParam<std::string> {};

TEST_P(ImageRuns, ConditionIsTheReferences) {
  const ImageRun run = image_run(GetParam());
  const ModelBundle model = ModelBundle::open(run.model);
  const Resolved r = resolve(model, run.request);
  const GoldenFile golden("image_pipeline/golden.safetensors");
  const Tensor want = golden[GetParam() + ".condition"];
  ThreadPool pool(2);
  std::vector<float> values(static_cast<size_t>(want.numel()));
  const Tensor condition(values.data(), DType::f32, want.shape());
  EXPECT_EQ(std::vector<int64_t>(want.shape().begin(), want.shape().end()), condition_dims(model, r));
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool};
  {
    const LoadedVaeEncoder vae = load_vae_encoder(model, stream);
    encode_condition(model, *vae.model, r, condition, stream);
  }
  Arena arena(measure.peak());
  stream.arena = &arena;
  const LoadedVaeEncoder vae = load_vae_encoder(model, stream);
  encode_condition(model, *vae.model, r, condition, stream);
  EXPECT_EQ(arena.peak(), measure.peak());
  EXPECT_LE(test::error_of(condition, want), 5e-6);
  if (model.family->image_input != ImageInput::channels) return;
  const int64_t mask = condition.slice(0, 0, 4).numel();  // the mask is exact
  for (int64_t i = 0; i < mask; ++i)
    ASSERT_EQ(values[static_cast<size_t>(i)], want.as<float>()[i]) << "mask value " << i;
}

TEST_P(ImageRuns, LatentsAndFramesAreTheReferences) {
  const ImageRun run = image_run(GetParam());
  const GoldenFile golden("image_pipeline/golden.safetensors");
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    test::Result result = test::run(run.model, run.request, {.weights = mode});
    const Tensor want = golden[GetParam() + ".latents"];
    const double error = test::error_of(Tensor(result.latents.data(), DType::f32, result.shape), want);
    EXPECT_LE(error, 1e-5);
    RecordProperty("error", fmt::format("{:.2e}", error));
    if (!golden.has(GetParam() + ".frames")) continue;
    const Tensor frames = golden[GetParam() + ".frames"];
    ASSERT_EQ(static_cast<int64_t>(result.rgb.size()), frames.numel());
    int64_t differing = 0;
    int worst = 0;
    for (size_t i = 0; i < result.rgb.size(); ++i) {
      const int apart = std::abs(int{result.rgb[i]} - int{frames.as<uint8_t>()[i]});
      worst = std::max(worst, apart), differing += apart != 0;
    }
    EXPECT_LE(worst, 1);
    EXPECT_LE(differing, frames.numel() / 500);
  }
}

TEST_P(ImageRuns, PlanIsExact) {
  ImageRun run = image_run(GetParam());
  run.request.steps = 2;
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
    for (const int threads : {1, 3})
      for (const double guidance : {1.0, 4.0}) {
        run.request.guidance = guidance;
        TextToVideo pipeline(ModelBundle::open(run.model), {.threads = threads, .weights = mode});
        const VideoPlan plan = pipeline.plan(run.request);
        ASSERT_EQ(plan.stages.size(), 4u);
        const auto planned = [&](size_t i) {
          return plan.shared_bytes + plan.stages[i].weight_bytes + plan.stages[i].arena_bytes;
        };
        const size_t before = Buffer::live_bytes();
        size_t image = 0, denoise = 0;
        Buffer::reset_peak();
        size_t whole = 0;
        VideoCallbacks callbacks;
        callbacks.progress = [&](const Progress& p) {
          const size_t peak = Buffer::peak_bytes() - before;
          whole = std::max(whole, peak);
          if (p.stage == "image" && p.done == 0) Buffer::reset_peak();
          if (p.stage == "image" && p.done == 1) image = peak;
          if (p.stage == "load" && p.done == 0) Buffer::reset_peak();
          if (p.stage == "denoise") denoise = peak;
        };
        test::run(pipeline, run.request, callbacks);
        EXPECT_EQ(Buffer::live_bytes(), before);
        EXPECT_EQ(image, planned(1)) << threads << " threads";
        EXPECT_EQ(denoise, planned(2)) << threads << " threads, guidance " << guidance;
        EXPECT_EQ(std::max(whole, Buffer::peak_bytes() - before), plan.peak_bytes);
      }
}

INSTANTIATE_TEST_SUITE_P(Golden, ImageRuns, testing::ValuesIn(test::image_runs()),
                         [](const auto& info) { return info.param; });

TEST(Image, BitsDoNotDependOnThreadsWeightsOrRepetition) {
  for (const char* name : {"ti2v_unipc", "i2v_unipc"}) {
    ImageRun run = image_run(name);
    run.request.steps = 3;
    TextToVideo kept(ModelBundle::open(run.model), {.threads = 1, .keep_loaded = true});
    const test::Result first = test::run(kept, run.request), again = test::run(kept, run.request);
    EXPECT_EQ(first.rgb, again.rgb);
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
      const test::Result other = test::run(run.model, run.request, {.threads = 3, .weights = mode});
      EXPECT_EQ(first.latents, other.latents) << name;
      EXPECT_EQ(first.rgb, other.rgb) << name;
    }
  }
}

TEST(Image, TextModeOfATextAndImageModelIsItsOwn) {
  ImageRun run = image_run("ti2v_unipc");
  run.request.steps = 2;
  const test::Result with = test::run(run.model, run.request);
  run.request.image = nullptr;
  const ModelBundle model = ModelBundle::open(run.model);
  EXPECT_STREQ(model.kind(), "text-and-image-to-video");
  TextToVideo pipeline(model, {.threads = 2});
  EXPECT_EQ(pipeline.plan(run.request).stages.size(), 3u);
  EXPECT_NE(test::run(pipeline, run.request).latents, with.latents);
}

TEST(Image, PreviewsShowThePictureAndChangeNothing) {
  for (const char* name : {"ti2v_unipc", "i2v22_unipc"}) {
    ImageRun run = image_run(name);
    run.request.steps = 3;
    TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2});
    int previews = 0;
    VideoCallbacks callbacks;
    callbacks.preview = [&](const RgbImage&, int) { ++previews; };
    EXPECT_EQ(test::run(pipeline, run.request, callbacks).latents, test::run(pipeline, run.request).latents);
    EXPECT_EQ(previews, 3);
  }
}

// Returns the message for a request that must be refused.
std::string refusal(const std::string& name, const std::function<void(VideoRequest&)>& change,
                    ErrorCode code = ErrorCode::invalid_argument) {
  ImageRun run = image_run(name);
  change(run.request);
  try {
    resolve(ModelBundle::open(run.model), run.request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  return "accepted";
}

TEST(Image, WrongRequestsNameOptionAndWhatWouldWork) {
  EXPECT_THAT(refusal("i2v_unipc", [](auto& r) { r.image = nullptr; }),
              AllOf(HasSubstr("`image`"), HasSubstr("image-to-video")));
  EXPECT_THAT(refusal("flf2v_euler", [](auto& r) { r.last_image = nullptr; }), HasSubstr("`last_image`"));
  EXPECT_THAT(refusal("ti2v_unipc", [](auto& r) { r.last_image = r.image; }), HasSubstr("`last_image`"));
  EXPECT_THAT(refusal("i2v22_last", [](auto& r) { r.image = nullptr; }), HasSubstr("`image`"));
  EXPECT_THAT(refusal("ti2v_unipc", [](auto& r) { r.frames = 1; }),
              AllOf(HasSubstr("`frames`"), HasSubstr("5")));
  EXPECT_THAT(refusal("i2v22_last", [](auto& r) { r.frames = 1; }), HasSubstr("`frames`"));
  EXPECT_THAT(refusal("ti2v_unipc", [](auto& r) { r.width = 80; }),
              AllOf(HasSubstr("`width`"), HasSubstr("64"), HasSubstr("96")));
  EXPECT_THAT(refusal("ti2v_unipc", [](auto& r) { r.image_fit = "squash"; }),
              AllOf(HasSubstr("`image_fit`"), HasSubstr("squash"), HasSubstr("crop")));
  EXPECT_THAT(refusal("i2v_unipc", [](auto& r) { r.image_embeds = nullptr; }),
              AllOf(HasSubstr("`image_embeds`"), HasSubstr("[257, 12]")));
  EXPECT_THAT(refusal("i2v22_unipc", [](auto& r) { r.image_embeds = test::embeds("embeds.safetensors"); }),
              AllOf(HasSubstr("`image_embeds`"), HasSubstr("no image branch")));
  EXPECT_THAT(refusal("flf2v_euler", [](auto& r) { r.image_embeds = test::embeds("embeds.safetensors"); }),
              AllOf(HasSubstr("[14, 12]"), HasSubstr("[1, 7, 12]")));
  EXPECT_THAT(refusal("i2v_unipc", [](auto& r) { r.image_embeds = test::embeds("embeds_pair.safetensors"); }),
              AllOf(HasSubstr("[257, 12]"), HasSubstr("[2, 7, 12]")));
  const auto shaped = [](std::vector<int64_t> shape, size_t values, float value = 0) {
    return [=](VideoRequest& r) {
      r.image_embeds = std::make_shared<ImageEmbeds>(ImageEmbeds{std::vector<float>(values, value), shape});
    };
  };
  EXPECT_THAT(refusal("i2v_unipc", shaped({7, 13}, 91)), HasSubstr("[7, 13]"));
  EXPECT_THAT(refusal("i2v_unipc", shaped({84}, 84)), HasSubstr("`image_embeds`"));
  EXPECT_THAT(refusal("i2v_unipc", shaped({7, 12}, 83)), HasSubstr("`image_embeds`"));
  EXPECT_THAT(refusal("i2v_unipc", shaped({7, 12}, 84, NAN)), HasSubstr("NaN"));
  EXPECT_EQ(refusal("i2v_unipc", shaped({7, 12}, 84)), "accepted");
  EXPECT_THAT(refusal("ti2v_unipc",
                      [](auto& r) {
                        r.image = std::make_shared<Picture>(Picture{3, 3, {1, 2, 3}});
                      }),
              HasSubstr("`image`"));
  VideoRequest text = test::short_request();
  text.image = image_run("ti2v_unipc").request.image;
  try {
    resolve(ModelBundle::open(test::model_path()), text);
    ADD_FAILURE() << "a text-to-video model took a picture";
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), AllOf(HasSubstr("`image`"), HasSubstr("text-to-video model")));
  }
}

TEST(Image, NaNInTheEncoderNamesTheStage) {
  const test::ScratchFolder scratch;
  const auto folder = scratch.path / "model";
  ImageRun run = image_run("ti2v_unipc");
  std::filesystem::copy(run.model, folder, std::filesystem::copy_options::recursive);
  test::edit_weights(folder, "vae", [&](const std::string& name, Tensor t) {
    if (name == "encoder.conv_out.bias") test::fill_nan(t);
    return true;
  });
  try {
    test::run(folder, run.request);
    ADD_FAILURE() << "the run succeeded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::numerical);
    EXPECT_THAT(e.message(), HasSubstr("vae"));
  }
}

}  // namespace
}  // namespace tachy
