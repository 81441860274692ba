// Tests image-to-video from the picture alone, which CLIP's vision model encodes
// (tests/golden/image_pipeline/make.py, the runs *_clip). Embeddings and latents are compared with diffusers'
// pipeline; further tests cover the plan, the places of the vision model, and the error of a request without
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "convert/convert.h"
#include "image_model.h"
#include "media/picture/clip_picture.h"
#include "resolve/resolve.h"
#include "session/fingerprint.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using test::GoldenFile;
using test::image_file;
using test::image_run;
using test::ImageRun;
using testing::AllOf;
using testing::HasSubstr;

const std::string kEncoder = image_file("flf2v_clip/image_encoder");

// Opens the model of a run; i2v takes the vision model from another folder.
ModelBundle open(const std::string& name, const fs::path& encoder = kEncoder) {
  const ImageRun run = image_run(name);
  return ModelBundle::open(run.model, FileAccess::map,
                           {.image_encoder = name == "i2v_clip" ? encoder : fs::path()});
}

// Does what the Engine does before it fits the pictures to the video.
void prepare_pictures(Resolved& r, const ModelBundle& model) {
  ClipPreparation how = model.clip_preparation;
  how.original = r.request.clip_preparation == "original";
  for (const char* name : {"first.png", "last.png"}) {
    const std::vector<float> pixels = clip_pixels(read_image(image_file(name)).view(), how);
    if (r.clip_pixels.size() < static_cast<size_t>(r.clip_pictures) * pixels.size())
      r.clip_pixels.insert(r.clip_pixels.end(), pixels.begin(), pixels.end());
  }
}

std::vector<float> latents_of(TextToVideo& pipeline, const VideoRequest& request,
                              VideoCallbacks callbacks = {}) {
  Resolved r = pipeline.resolved(request);
  prepare_pictures(r, pipeline.model());
  std::vector<float> out;
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
    out.assign(values.begin(), values.end());
  };
  pipeline.generate(pipeline.prepare(std::move(r)), callbacks);
  return out;
}

class ClipRuns : public testing::TestWithParam<std::string> {};

TEST_P(ClipRuns, LatentsAreTheReferences) {
  const ImageRun run = image_run(GetParam());
  const GoldenFile golden("image_pipeline/golden.safetensors");
  const Tensor want = golden[GetParam() + ".latents"];
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    TextToVideo pipeline(open(GetParam()), {.threads = 2, .weights = mode});
    std::vector<float> got = latents_of(pipeline, run.request);
    ASSERT_EQ(static_cast<int64_t>(got.size()), want.numel());
    const double error = test::error_of(Tensor(got.data(), DType::f32, want.shape()), want);
    EXPECT_LE(error, 1e-5);
    RecordProperty("error", fmt::format("{:.2e}", error));
  }
}

// CLIP's view of the pictures matters, and given embeddings replace it.
TEST_P(ClipRuns, GivenEmbeddingsTakeThePlaceOfTheEncoder) {
  ImageRun run = image_run(GetParam());
  TextToVideo pipeline(open(GetParam()), {.threads = 2});
  const std::vector<float> seen = latents_of(pipeline, run.request);
  run.request.clip_preparation = "original";
  EXPECT_GT(test::furthest(latents_of(pipeline, run.request), seen), 1e-3) << "prepared otherwise";
  const GoldenFile golden("image_pipeline/golden.safetensors");
  const Tensor embeds = golden[GetParam() + ".embeds"];
  run.request.image_embeds = std::make_shared<ImageEmbeds>(
      ImageEmbeds{test::values_of(embeds), {embeds.shape().begin(), embeds.shape().end()}});
  std::set<std::string> stages;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) { stages.insert(p.stage); };
  EXPECT_LE(test::furthest(latents_of(pipeline, run.request, callbacks), seen), 1e-4);
  EXPECT_EQ(stages.count("image-embeds"), 0u);
}

TEST_P(ClipRuns, PlanIsExactAndBitsDoNotDependOnThreads) {
  ImageRun run = image_run(GetParam());
  run.request.steps = 2;
  std::vector<float> first;
  for (const int threads : {1, 3}) {
    TextToVideo pipeline(open(GetParam()), {.threads = threads});
    const VideoPlan plan = pipeline.plan(run.request);
    ASSERT_EQ(plan.stages.size(), 5u);
    EXPECT_EQ(plan.stages[1].name, "image-embeds");
    EXPECT_GT(plan.stages[1].mapped_bytes, 0u);
    EXPECT_GT(plan.stages[1].flops, 0);
    const size_t before = Buffer::live_bytes();
    size_t stage = 0, whole = 0;
    Buffer::reset_peak();
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress& p) {
      const size_t peak = Buffer::peak_bytes() - before;
      whole = std::max(whole, peak);
      if (p.stage != "image-embeds") return;
      if (p.done == 0) Buffer::reset_peak();
      if (p.done == 1) stage = peak;
    };
    const std::vector<float> latents = latents_of(pipeline, run.request, callbacks);
    EXPECT_EQ(stage, plan.shared_bytes + plan.stages[1].weight_bytes + plan.stages[1].arena_bytes);
    EXPECT_EQ(std::max(whole, Buffer::peak_bytes() - before), plan.peak_bytes);
    EXPECT_EQ(Buffer::live_bytes(), before);
    if (first.empty()) first = latents;
    EXPECT_EQ(latents, first) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ClipRuns, testing::Values("i2v_clip", "flf2v_clip"),
                         [](const auto& info) { return info.param; });

TEST(ImageEncoder, KeptLoadedItServesTheNextRequest) {
  ImageRun run = image_run("flf2v_clip");
  run.request.steps = 2;
  TextToVideo kept(open("flf2v_clip"), {.threads = 2, .keep_loaded = true});
  const std::vector<float> first = latents_of(kept, run.request);
  EXPECT_EQ(latents_of(kept, run.request), first);
  TextToVideo once(open("flf2v_clip"), {.threads = 2});
  EXPECT_EQ(latents_of(once, run.request), first);
}

TEST(ImageEncoder, WhatIsMissingIsNamed) {
  const ImageRun run = image_run("i2v_clip");
  const ModelBundle without = ModelBundle::open(run.model);
  EXPECT_EQ(without.image_encoder, nullptr);
  EXPECT_THAT(test::refusal([&] { resolve(without, run.request); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`image_encoder`"), HasSubstr("clip_vision_h.safetensors"),
                    HasSubstr("`image_embeds`"), HasSubstr("[257, 12]")));
  const auto opened = [](const std::string& model, const fs::path& encoder, ErrorCode code) {
    return test::refusal(
        [&] { ModelBundle::open(image_file(model), FileAccess::map, {.image_encoder = encoder}); }, code);
  };
  EXPECT_THAT(opened("i2v22", kEncoder, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`image_encoder`"), HasSubstr("no image branch")));
  EXPECT_THAT(opened("i2v", "gone.safetensors", ErrorCode::not_found),
              HasSubstr("`image_encoder`: gone.safetensors"));
  EXPECT_THAT(opened("i2v", image_file("i2v"), ErrorCode::not_found), HasSubstr("`image_encoder`"));
  EXPECT_THAT(opened("i2v", image_file("i2v/vae"), ErrorCode::not_found), HasSubstr("`image_encoder`"));
  EXPECT_THAT(opened("i2v", test::golden_path("clip_vision/plain"), ErrorCode::corrupt),
              AllOf(HasSubstr("12 channels"), HasSubstr("makes 24")));
  EXPECT_THAT(
      opened("flf2v", kEncoder, ErrorCode::corrupt),
      AllOf(HasSubstr("`image_encoder`"), HasSubstr("14 rows of two pictures"), HasSubstr("makes 5")));
  EXPECT_NO_THROW(
      ModelBundle::open(image_file("i2v"), FileAccess::map, {.image_encoder = image_file("flf2v_clip")}))
      << "of a model's folder";
  ImageRun bad = image_run("flf2v_clip");
  bad.request.clip_preparation = "squash";
  EXPECT_THAT(test::refusal([&] { resolve(open("flf2v_clip"), bad.request); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`clip_preparation`"), HasSubstr("processor or original")));
}

TEST(ImageEncoder, DefaultsFollowTheLayout) {
  EXPECT_EQ(open("i2v_clip").defaults.clip_preparation, "processor");
  EXPECT_EQ(ModelBundle::open(image_file("i2v22")).defaults.clip_preparation, std::nullopt);
  const ModelBundle folder = open("flf2v_clip");
  EXPECT_EQ(folder.clip_preparation, (ClipPreparation{.shortest_edge = 28, .side = 28}));
  EXPECT_NE(fingerprint(open("i2v_clip")), fingerprint(ModelBundle::open(image_file("i2v"))));
}

TEST(ImageEncoder, NaNNamesThePart) {
  const test::ScratchFolder scratch;
  fs::copy(image_file("flf2v_clip"), scratch.path / "model", fs::copy_options::recursive);
  test::edit_weights(scratch.path / "model", "image_encoder", [&](const std::string& name, Tensor t) {
    if (name.ends_with("layers.0.mlp.fc2.bias")) test::fill_nan(t);
    return true;
  });
  TextToVideo pipeline(ModelBundle::open(scratch.path / "model"), {.threads = 2});
  EXPECT_THAT(
      test::refusal([&] { latents_of(pipeline, image_run("flf2v_clip").request); }, ErrorCode::numerical),
      HasSubstr("image encoder"));
}

// These are ComfyUI's folders: diffusion_models/, text_encoders/, vae/, clip_vision/.
TEST(ImageEncoder, FoundInComfysFolders) {
  const test::ScratchFolder scratch;
  const fs::path models = scratch.path / "models";
  const auto put = [&](const fs::path& from, const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy_file(find_weights(from), to);
    fs::copy_file(from / "config.json", fs::path(to).replace_extension(".json"));
  };
  const fs::path from = image_file("i2v"), transformer = models / "diffusion_models/i2v.safetensors";
  put(from / "transformer", transformer);
  put(from / "text_encoder", models / "text_encoders/umt5.safetensors");
  put(from / "vae", models / "vae/vae.safetensors");
  const PartPaths parts{.tokenizer = from / "tokenizer"};
  const ImageRun run = image_run("i2v_clip");
  const auto told = [&] {
    return test::refusal(
        [&] { resolve(ModelBundle::open(transformer, FileAccess::map, parts), run.request); },
        ErrorCode::invalid_argument);
  };
  EXPECT_THAT(told(), AllOf(HasSubstr("`image_encoder`"), HasSubstr("clip_vision"), HasSubstr("12 channels"),
                            HasSubstr("`image_embeds`")));
  put(kEncoder, models / "clip_vision/wan/clip_tiny.safetensors");
  put(test::golden_path("clip_vision/plain"), models / "clip_vision/other.safetensors");  // this file has
                                                                                          // another width
  TextToVideo found(ModelBundle::open(transformer, FileAccess::map, parts), {.threads = 2});
  TextToVideo named(open("i2v_clip"), {.threads = 2});
  VideoRequest request = run.request;
  request.steps = 2;
  EXPECT_EQ(latents_of(found, request), latents_of(named, request));
  const fs::path folder = scratch.path / "folder";  // the folder was written whole, including the vision
                                                    // model
  EXPECT_THAT(convert_model(transformer, folder, parts, {.to = "diffusers"}).notes, testing::IsEmpty());
  TextToVideo converted(ModelBundle::open(folder), {.threads = 2});
  request.clip_preparation = "processor";
  EXPECT_EQ(latents_of(converted, request), latents_of(named, request));
  put(kEncoder, models / "clip_vision/second.safetensors");
  EXPECT_THAT(told(), AllOf(HasSubstr("several files fit"), HasSubstr("second.safetensors")));
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(models / "clip_vision/second.safetensors"); },
                            ErrorCode::invalid_argument),
              HasSubstr("give it as `image_encoder`"));
}

}  // namespace
}  // namespace tachy
