// Tests whole runs whose intermediates are allocated separately (ModelOptions::arena): they have the same
// bits, within the same plan. Under AddressSanitizer this finds code that leaves a tensor's bounds;
// memory_test.cpp shows that such code is found.
#include <gtest/gtest.h>

#include "image_model.h"
#include "recording_device.h"
#include "tiny_model.h"
#include "world_model.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

constexpr size_t kPlenty = size_t{1} << 30;

// Compares the frames and latents of a run with the arena and of one without.
void expect_same_bits(const std::string& model, const VideoRequest& request, const std::string& what,
                      TextToVideo::Options options = {}) {
  options.threads = 2;
  const test::Result with = test::run(model, request, options);
  options.arena = false;
  const size_t before = Buffer::live_bytes();
  TextToVideo pipeline(ModelBundle::open(model), options);
  const VideoPlan plan = pipeline.plan(request);
  Buffer::reset_peak();
  const test::Result without = test::run(pipeline, request);
  EXPECT_EQ(without.rgb, with.rgb) << what;
  EXPECT_EQ(without.latents, with.latents) << what;
  if (!options.memory && !options.keep_loaded)
    EXPECT_LE(Buffer::peak_bytes() - before, plan.peak_bytes)
        << what << ": padding between tensors is not taken";
}

TEST(WithoutTheArena, ARunHasTheSameBits) {
  VideoRequest request = test::short_request();
  request.guidance = 5.0;
  expect_same_bits(test::model_path(), request, "guided");
  request.dtype = "bf16";
  expect_same_bits(test::model_path(), request, "bf16", {.weights = WeightMode::mapped});
  request.dtype = "f32", request.without = {"fused-block", "batched-guidance", "few-keys"};
  expect_same_bits(test::model_path(), request, "without optimisations");
  for (const std::string& name : test::image_runs()) {
    const test::ImageRun run = test::image_run(name);
    expect_same_bits(run.model, run.request, name);
  }
}

TEST(WithoutTheArena, AModelThatStaysLoadedToo) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .keep_loaded = true, .arena = false});
  const VideoRequest request = test::short_request();
  const test::Result first = test::run(pipeline, request), second = test::run(pipeline, request);
  EXPECT_EQ(first.rgb, test::run(test::model_path(), request).rgb);
  EXPECT_EQ(second.rgb, first.rgb);
}

// A stand-in for a GPU without graphs, whose intermediates are in the device's memory.
TEST(WithoutTheArena, OnADevice) {
  VideoRequest request = test::short_request();
  request.without = {"graphs"};
  expect_same_bits(test::model_path(), request, "a device",
                   {.memory = std::make_shared<test::HostDevice>(kPlenty)});
}

TEST(WithoutTheArena, AWorldHasTheSameBits) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  const auto walk = [&](bool arena) {
    const ModelOptions options{.threads = 2, .arena = arena};
    WorldSession session(std::make_shared<Model>(ModelBundle::open(model.path()), options), {});
    const WorldConfig& c = session.config();
    WorldInput in;
    for (int i = 0; i < c.width * c.height * 3; ++i) in.picture.push_back(0.7f * std::sin(0.013f * i));
    const int64_t side = session.model().clip.image_size;
    for (int64_t i = 0; i < 3 * side * side; ++i) in.clip_pixels.push_back(std::cos(0.02f * i));
    session.start(in, 7);
    std::vector<uint8_t> rgb;
    for (int i = 0; i < 4; ++i)
      session.next(
          [] {
            return WorldSession::Action{{1, 0, 0, 0}, {0, 0.1f}};
          },
          [&](const RgbImage& image, int64_t) { rgb.insert(rgb.end(), image.rgb.begin(), image.rgb.end()); });
    return rgb;
  };
  EXPECT_EQ(walk(false), walk(true));
}

TEST(WithoutTheArena, GraphsAreRefused) {
  EXPECT_NO_THROW(check_arena({.arena = true}, true));
  EXPECT_NO_THROW(check_arena({.arena = false}, false));
  try {
    check_arena({.arena = false}, true);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(e.message().find("`arena`: a CUDA graph needs its memory at fixed addresses"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tachy
