// Frames that leave a device while it decodes the next ones are those of a run that waits for each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_device.h"
#include "request/stage_plan.h"
#include "talk_model.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::HostDevice;
using testing::HasSubstr;

TextToVideo::Options on(const std::shared_ptr<HostDevice>& device) {
  return {.threads = 2, .memory = device};
}

VideoRequest nine_latent_frames() {
  VideoRequest request = test::short_request();
  request.frames = 33;
  return request;
}

TEST(LateFrames, AreThoseOfARunThatWaits) {
  const auto plain = test::run(test::model_path(), nine_latent_frames());
  ASSERT_EQ(plain.frames, 33);
  for (const bool pinned : {true, false}) {
    const auto device = std::make_shared<HostDevice>(test::kPlenty);
    device->pin_fails = !pinned, device->looks_in_vain = 2;
    {
      TextToVideo pipeline(ModelBundle::open(test::model_path()), on(device));
      std::vector<int64_t> told;
      VideoCallbacks callbacks;
      callbacks.progress = [&](const Progress& p) {
        if (p.stage == "decode") told.push_back(p.done);
      };
      const auto late = test::run(pipeline, nine_latent_frames(), callbacks);
      EXPECT_EQ(late.frames, 33);
      EXPECT_EQ(late.rgb, plain.rgb) << pinned;
      EXPECT_EQ(device->fetches, 5) << "one for the first latent frame, and one for each two";
      EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 9, 17, 25, 33})) << "progress comes with the frames";
    }
    EXPECT_EQ(device->pinned, 0) << "the host's memory is free again";
  }
}

// The host hands out a piece when two later ones have been queued, or all of them.
TEST(LateFrames, LeaveWhenTwoMoreAreOnTheirWay) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), on(device));
  std::vector<int64_t> fetches;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "decode" && p.done > 0) fetches.push_back(device->fetches);
  };
  test::run(pipeline, nine_latent_frames(), callbacks);
  EXPECT_EQ(fetches, (std::vector<int64_t>{2, 3, 4, 5, 5}));
}

// Two latent frames at a time need more memory than one: where it is short, that is the first thing to go.
TEST(LateFrames, ComeOneByOneWhereMemoryIsShort) {
  VideoRequest request = nine_latent_frames();
  request.width = 128, request.height = 64;
  const auto plain = test::run(test::model_path(), request);
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  const TextToVideo::Options options = on(device);
  const VideoPlan plan = TextToVideo(ModelBundle::open(test::model_path()), options).plan(request);
  ASSERT_EQ(plan.vae_latents, 2);
  ASSERT_EQ(plan.peak_bytes, bytes_of(plan, stage_plan(plan, "decode")));
  TextToVideo::Options tight = options;
  tight.max_vram = plan.peak_bytes - 1;
  TextToVideo pipeline(ModelBundle::open(test::model_path()), tight);
  const VideoPlan one = pipeline.plan(request);
  EXPECT_EQ(one.vae_latents, 1);
  EXPECT_LT(one.peak_bytes, plan.peak_bytes);
  device->reset_peak();
  EXPECT_EQ(test::run(pipeline, request).rgb, plain.rgb);
  EXPECT_EQ(device->fetches, 9);
  EXPECT_EQ(device->peak_bytes(), one.peak_bytes);
}

TEST(LateFrames, CancelledOnesLeaveNoCopyBehind) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), on(device));
  std::atomic<bool> cancel{false};
  VideoCallbacks callbacks{.cancel = &cancel};
  callbacks.progress = [&](const Progress& p) { cancel = p.stage == "decode" && p.done == 9; };
  EXPECT_THROW(test::run(pipeline, nine_latent_frames(), callbacks), Error);
  cancel = false;
  callbacks.progress = {};
  EXPECT_EQ(test::run(pipeline, nine_latent_frames(), callbacks).rgb,
            test::run(test::model_path(), nine_latent_frames()).rgb);
}

TEST(LateFrames, OnesThatAreNotFiniteAreNotShown) {
  const test::ScratchFolder scratch;
  const auto folder = test::model_copy(scratch);
  test::edit_weights(folder, "vae", [](const std::string& name, Tensor t) {
    if (name == "decoder.conv_out.bias") test::fill_nan(t);
    return true;
  });
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(folder), on(device));
  test::Result seen;
  try {
    pipeline.generate(nine_latent_frames(), test::collecting(seen, {}));
    ADD_FAILURE() << "it succeeded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::numerical);
    EXPECT_THAT(e.message(), HasSubstr("vae decode: frames from 0 on hold NaN or Inf"));
  }
  EXPECT_EQ(seen.frames, 0);
}

// The host gives frames that have left the device the photo's colours, and the next window begins with them.
TEST(LateFrames, ColoursAreThoseOfARunThatWaits) {
  const test::TalkModel model;
  for (const double strength : {0.0, 0.75, 1.0}) {
    VideoRequest request = test::talk_request(16);  // windows begin at 0, 4 and 8
    request.color_correction = strength;
    TextToVideo on_cpu(model.open(), {.threads = 2});
    const test::Result plain = test::talk(on_cpu, request);
    ASSERT_EQ(plain.frames, 16);
    for (const bool kept : {false, true}) {
      const auto device = std::make_shared<HostDevice>(test::kPlenty);
      device->looks_in_vain = 1;
      TextToVideo pipeline(model.open(), {.threads = 2, .keep_loaded = kept, .memory = device});
      Resolved r = pipeline.resolved(request);
      r.speech = request.speech->samples;
      const VideoPlan plan = pipeline.prepare(r).plan;
      for (int64_t video = 1; video <= (kept ? 2 : 1); ++video) {
        const test::Result late = test::talk(pipeline, request);
        EXPECT_EQ(late.rgb, plain.rgb) << strength;
        EXPECT_EQ(late.latents, plain.latents)
            << strength << ": those of the last window follow from its tail";
        EXPECT_EQ(device->fetches, 6 * video) << "three windows of one and two latent frames";
      }
      EXPECT_LE(device->peak_bytes(), plan.peak_bytes) << strength;
      if (!kept) {
        EXPECT_EQ(device->peak_bytes(), plan.peak_bytes) << strength;
      }
    }
  }
}

}  // namespace
}  // namespace tachy
