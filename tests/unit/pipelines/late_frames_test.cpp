// Frames that leave a device while it decodes the next ones are those of a run that waits for each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::HostDevice;
using testing::HasSubstr;

TextToVideo::Options on(const std::shared_ptr<HostDevice>& device) {
  return {.threads = 2, .memory = device};
}

VideoRequest five_latent_frames() {
  VideoRequest request = test::short_request();
  request.frames = 17;
  return request;
}

TEST(LateFrames, AreThoseOfARunThatWaits) {
  const auto plain = test::run(test::model_path(), five_latent_frames());
  ASSERT_EQ(plain.frames, 17);
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
      const auto late = test::run(pipeline, five_latent_frames(), callbacks);
      EXPECT_EQ(late.frames, 17);
      EXPECT_EQ(late.rgb, plain.rgb) << pinned;
      EXPECT_EQ(device->fetches, 5) << "one for each latent frame";
      EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 5, 9, 13, 17})) << "progress comes with the frames";
    }
    EXPECT_EQ(device->pinned, 0) << "the host's memory is free again";
  }
}

// The host hands out a latent frame when two later ones have been queued, or all of them.
TEST(LateFrames, LeaveWhenTwoMoreAreOnTheirWay) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), on(device));
  std::vector<int64_t> fetches;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "decode" && p.done > 0) fetches.push_back(device->fetches);
  };
  test::run(pipeline, five_latent_frames(), callbacks);
  EXPECT_EQ(fetches, (std::vector<int64_t>{2, 3, 4, 5, 5}));
}

TEST(LateFrames, CancelledOnesLeaveNoCopyBehind) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), on(device));
  std::atomic<bool> cancel{false};
  VideoCallbacks callbacks{.cancel = &cancel};
  callbacks.progress = [&](const Progress& p) { cancel = p.stage == "decode" && p.done == 5; };
  EXPECT_THROW(test::run(pipeline, five_latent_frames(), callbacks), Error);
  cancel = false;
  callbacks.progress = {};
  EXPECT_EQ(test::run(pipeline, five_latent_frames(), callbacks).rgb,
            test::run(test::model_path(), five_latent_frames()).rgb);
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
    pipeline.generate(five_latent_frames(), test::collecting(seen, {}));
    ADD_FAILURE() << "it succeeded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::numerical);
    EXPECT_THAT(e.message(), HasSubstr("vae decode: frames from 0 on hold NaN or Inf"));
  }
  EXPECT_EQ(seen.frames, 0);
}

}  // namespace
}  // namespace tachy
