// Tests runs in context windows: they are compared with diffusers' transformer with the windows, masks and
// noise of ComfyUI-WanVideoWrapper (tests/golden/windows/make_runs.py), planned to the byte, resumed, and
// made with one recorded step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image_model.h"
#include "recording_device.h"

namespace tachy {
namespace {

using test::GoldenFile;
using testing::HasSubstr;

VideoRequest windowed(VideoRequest r, const std::string& kind) {
  r.frames = 49, r.width = 48, r.height = 32, r.steps = 4, r.seed = 7, r.sampler = "euler", r.shift = 3.0;
  r.windows = kind, r.window_frames = 17, r.window_overlap = 8;
  return r;
}
VideoRequest text_request(const std::string& kind) { return windowed(test::golden_request(), kind); }
VideoRequest image_request(const std::string& run, const std::string& kind) {
  VideoRequest r = test::image_run(run).request;
  r.last_image = nullptr;
  r = windowed(r, kind);
  r.image = test::picture(test::image_file("first.png"), r);
  return r;
}

double error_of(test::Result& result, const std::string& name) {
  const GoldenFile golden("windows/runs.safetensors");
  const Tensor want = golden[name];
  return test::error_of(Tensor(result.latents.data(), DType::f32, want.shape()), want);
}

TEST(WindowRuns, AreTheReferences) {
  for (const char* kind : {"static", "uniform", "looped"})
    for (const char* mask : {"linear", "pyramid"}) {
      VideoRequest request = text_request(kind);
      request.window_mask = mask;
      auto result = test::run(test::model_path(), request);
      EXPECT_LE(error_of(result, std::string(kind) + "." + mask), 1e-5) << kind << " " << mask;
    }
  VideoRequest plain = text_request("static");
  plain.free_noise = "off";
  auto result = test::run(test::model_path(), plain);
  EXPECT_LE(error_of(result, "noise.static"), 1e-5);
}

TEST(WindowRuns, OfAPictureAreTheReferences) {
  for (const char* kind : {"static", "uniform", "looped"}) {
    auto result = test::run(test::image_file("i2v22"), image_request("i2v22_unipc", kind));
    EXPECT_LE(error_of(result, std::string("image.") + kind), 1e-5) << kind;
  }
}

TEST(WindowRuns, RiflexIsTheReferences) {
  for (const int k : {1, 2}) {
    VideoRequest request = text_request("none");
    request.riflex = k;
    auto result = test::run(test::model_path(), request);
    EXPECT_LE(error_of(result, "riflex." + std::to_string(k)), 1e-5) << k;
  }
  auto plain = test::run(test::model_path(), text_request("none"));
  EXPECT_GT(error_of(plain, "riflex.1"), 1e-3);
}

TEST(WindowRuns, AClipOfOneWindowIsAsWithout) {
  VideoRequest request = test::golden_request();
  const auto want = test::run(test::model_path(), request);
  for (const char* kind : {"static", "looped"}) {
    request.windows = kind, request.window_frames = 5, request.window_overlap = 4;
    EXPECT_EQ(test::run(test::model_path(), request).latents, want.latents);
  }
}

// A given frame stays what it is, wherever it is in a window.
TEST(WindowRuns, KeepAGivenFirstFrame) {
  for (const char* kind : {"static", "uniform", "looped"}) {
    VideoRequest request = image_request("ti2v_unipc", kind);
    request.width = 96, request.height = 64;
    request.image = test::picture(test::image_file("first.png"), request);
    const auto windows = test::run(test::image_file("ti2v"), request);
    request.windows = "none";
    const auto whole = test::run(test::image_file("ti2v"), request);
    ASSERT_EQ(windows.shape, whole.shape);
    const int64_t z = whole.shape[0], t = whole.shape[1], frame = whole.shape[2] * whole.shape[3];
    ASSERT_EQ(t, 13);
    double apart = 0;
    for (int64_t c = 0; c < z; ++c)
      for (int64_t i = 0; i < t * frame; ++i) {
        const auto at = static_cast<size_t>(c * t * frame + i);
        if (i < frame)
          ASSERT_EQ(windows.latents[at], whole.latents[at]) << kind;
        else
          apart = std::max(apart, std::abs(double{windows.latents[at]} - double{whole.latents[at]}));
      }
    EXPECT_GT(apart, 0.01);
  }
}

TEST(WindowRuns, TakeWhatWasPlannedAndOneRecordedStep) {
  for (const bool picture : {false, true}) {
    const std::string model = picture ? test::image_file("i2v22") : test::model_path();
    const VideoRequest request = picture ? image_request("i2v22_unipc", "uniform") : text_request("uniform");
    const auto want = test::run(model, request, {.weights = WeightMode::packed});
    const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
    TextToVideo pipeline(
        ModelBundle::open(model),
        {.threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device});
    const uint64_t planned = pipeline.plan(request).peak_bytes;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(test::run(pipeline, request).latents, want.latents);
    EXPECT_EQ(pipeline.counters().captured, 1) << "all windows are one graph";
    EXPECT_GT(device->launches, 20);
    EXPECT_LE(device->peak_bytes(), planned);
  }
}

TEST(WindowRuns, BitsDoNotDependOnThreads) {
  const VideoRequest request = text_request("looped");
  EXPECT_EQ(test::run(test::model_path(), request, {.threads = 1}).latents,
            test::run(test::model_path(), request, {.threads = 3}).latents);
}

TEST(WindowRuns, WhatDoesNotFitIsRefused) {
  const auto message = [](const VideoRequest& request) {
    try {
      TextToVideo(ModelBundle::open(test::model_path()), {.threads = 1}).plan(request);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.message();
    }
    return std::string("accepted");
  };
  VideoRequest request = text_request("static");
  EXPECT_EQ(message(request), "accepted");
  request.window_overlap = 20;
  EXPECT_THAT(message(request),
              HasSubstr("`window_overlap`: expected fewer than the window's 17 frames, got 20"));
  request = text_request("static"), request.windows = "round";
  EXPECT_THAT(message(request), HasSubstr("`windows`"));
  request = text_request("static"), request.riflex = 400;
  EXPECT_THAT(message(request), HasSubstr("`riflex`"));
}

}  // namespace
}  // namespace tachy
