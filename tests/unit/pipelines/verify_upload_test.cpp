// Tests that --verify-upload finds a bit that arrived wrong and names the tensor, and that a run can stop
// between any two pieces of its work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deep_model.h"
#include "host_device.h"

namespace tachy {
namespace {

using test::deep_model;
using test::HostDevice;
using test::kPlenty;
using testing::AllOf;
using testing::HasSubstr;

TextToVideo::Options on(const std::shared_ptr<HostDevice>& device, bool verify, uint64_t max_vram = 0) {
  return {.threads = 2,
          .weights = WeightMode::packed,
          .max_vram = max_vram,
          .verify_upload = verify,
          .memory = device};
}

// Returns the message of the error that ended the run; "" if there was none.
std::string failure(const std::shared_ptr<HostDevice>& device, bool verify, uint64_t max_vram = 0) {
  TextToVideo pipeline(ModelBundle::open(deep_model()), on(device, verify, max_vram));
  try {
    test::run(pipeline, test::short_request());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device) << e.message();
    EXPECT_EQ(device->live_bytes(), 0u);
    return e.message();
  }
  return "";
}

uint64_t half_of_the_peak() {
  const auto device = std::make_shared<HostDevice>(kPlenty);
  return TextToVideo(ModelBundle::open(deep_model()), on(device, false))
             .plan(test::short_request())
             .peak_bytes /
         2;
}

TEST(VerifyUpload, ChangesNothingWhereAllIsWell) {
  const auto plain =
      test::run(deep_model(), test::short_request(), {.threads = 2, .weights = WeightMode::packed});
  for (const uint64_t max_vram : {uint64_t{0}, half_of_the_peak()}) {
    const auto device = std::make_shared<HostDevice>(kPlenty);
    TextToVideo pipeline(ModelBundle::open(deep_model()), on(device, true, max_vram));
    EXPECT_EQ(test::run(pipeline, test::short_request()).latents, plain.latents);
    EXPECT_EQ(device->live_bytes(), 0u);
    EXPECT_EQ(device->copies > 0, max_vram > 0);
  }
}

TEST(VerifyUpload, NamesTheTensorOfWhichABitIsWrong) {
  auto device = std::make_shared<HostDevice>(kPlenty);
  ASSERT_EQ(failure(device, true), "");
  const auto pieces = static_cast<int64_t>(device->pieces);
  ASSERT_GT(pieces, 20);
  int found = 0;
  for (int64_t piece = 0; piece < pieces; piece += pieces / 16) {
    device = std::make_shared<HostDevice>(kPlenty);
    device->damaged_piece = piece;
    const std::string message = failure(device, true);
    if (message.empty()) continue;  // the bit belongs to a tensor that is made while loading, or to a table
    ++found;
    EXPECT_THAT(message, AllOf(HasSubstr("`verify_upload`: "), HasSubstr("after loading: '"),
                               HasSubstr(".safetensors"), HasSubstr("1 of "), HasSubstr("bytes differ")));
  }
  EXPECT_GE(found, 12);
  device = std::make_shared<HostDevice>(kPlenty);
  device->damaged_piece = pieces / 2;
  EXPECT_EQ(failure(device, false), "");  // without the option nothing is reported
}

TEST(VerifyUpload, SeesABlockThatArrivesWrong) {
  const uint64_t budget = half_of_the_peak();
  for (const int64_t copy : {0, 5, 40}) {
    const auto device = std::make_shared<HostDevice>(kPlenty);
    device->damaged_copy = copy;
    EXPECT_THAT(failure(device, true, budget),
                AllOf(HasSubstr("streamed block"), HasSubstr("other bytes have arrived")));
  }
}

TEST(VerifyUpload, NeedsAGpu) {
  try {
    TextToVideo(ModelBundle::open(deep_model()), {.verify_upload = true});
    ADD_FAILURE() << "it opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.message(), AllOf(HasSubstr("`verify_upload`"), HasSubstr("`device` cuda")));
  }
}

// This holds for text encoding, denoising and decoding, resident and streamed.
TEST(Pace, ARunStopsBetweenAnyTwoPieces) {
  const VideoRequest request = test::short_request();
  for (const uint64_t max_vram : {uint64_t{0}, half_of_the_peak()}) {
    const auto device = std::make_shared<HostDevice>(kPlenty);
    TextToVideo pipeline(ModelBundle::open(deep_model()), on(device, false, max_vram));
    const auto expected = test::run(pipeline, request);
    const int64_t pieces = device->paces;
    ASSERT_GT(pieces, 2 * test::kLayers);
    std::atomic<bool> cancel{false};
    for (int64_t stop = 0; stop < pieces; stop += pieces / 11) {
      device->paces = 0, cancel = false;
      device->on_pace = [&](int64_t pace) { cancel = cancel || pace == stop; };
      try {
        test::run(pipeline, request, {.cancel = &cancel});
        ADD_FAILURE() << "it went on after piece " << stop;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::cancelled) << e.message();
      }
      EXPECT_EQ(device->paces, stop + 1) << "work was queued after it had been told to stop";
      EXPECT_EQ(device->live_bytes(), 0u);
      EXPECT_EQ(device->pinned, 0);
    }
    device->on_pace = nullptr;
    EXPECT_EQ(test::run(pipeline, request).rgb, expected.rgb);
  }
}

}  // namespace
}  // namespace tachy
