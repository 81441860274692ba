// Tests a world on a device (worlds/world_session.h), for which a test's device on the host stands. It gives
// the bits of the CPU although a block is queued as a whole and its frames are fetched late. Further tests
// show what a steady block does besides its graphs, that memory is as planned, and how a block that is not
// finite ends. tests/unit/api/world_test.cpp tests a session on the CPU.
#include "worlds/world_session.h"

#include <gmock/gmock.h>

#include "recording_device.h"
#include "tensor/work_tally.h"
#include "tiny_model.h"
#include "world_model.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Walk {
  std::vector<uint8_t> rgb;
  int64_t frames = 0;
};

WorldInput input_of(const WorldSession& session) {
  const WorldConfig& c = session.config();
  WorldInput in;
  for (int i = 0; i < c.width * c.height * 3; ++i) in.picture.push_back(0.7f * std::sin(0.013f * i));
  const int64_t side = session.model().clip.image_size;
  for (int64_t i = 0; i < 3 * side * side; ++i) in.clip_pixels.push_back(std::cos(0.02f * i));
  return in;
}

WorldSession open(const test::WorldModel& model, std::shared_ptr<DeviceMemory> device, bool graphs = true) {
  const ModelOptions options{.threads = 2, .graphs = graphs, .memory = std::move(device)};
  return WorldSession(std::make_shared<Model>(ModelBundle::open(model.path()), options), {});
}

WorldRun::Frame into(Walk& walk) {
  return [&walk](const RgbImage& image, int64_t index) {
    EXPECT_EQ(index, walk.frames++);
    walk.rgb.insert(walk.rgb.end(), image.rgb.begin(), image.rgb.end());
  };
}

WorldSession::Block next(WorldSession& session, int64_t i, const WorldRun::Frame& frame) {
  return session.next(
      [i] {
        return WorldSession::Action{{i % 3 == 0 ? 1.0f : 0.0f, 0, i % 2 ? 1.0f : 0.0f, 0},
                                    {0.0f, 0.1f * static_cast<float>(i % 5 - 2)}};
      },
      frame);
}

Walk walk(WorldSession& session, int64_t blocks) {
  Walk out;
  session.start(input_of(session), 7);
  for (int64_t i = 0; i < blocks; ++i) next(session, i, into(out));
  return out;
}

// The blocks have one latent frame, three, or five, which are more than are fetched at a time. The ring and
// the decoder's caches are full for long enough that passes and decoding are replayed.
TEST(WorldSessions, ADeviceGivesTheBitsOfTheCpu) {
  for (const int block : {1, 3, 5}) {
    const int64_t blocks = 3 + 12 / block, latents = blocks * block;
    const test::WorldModel model({.world = test::WorldModel::world(block, 6)});
    WorldSession cpu = open(model, nullptr);
    const Walk want = walk(cpu, blocks);
    ASSERT_EQ(want.frames, 1 + 4 * (latents - 1));
    for (const bool graphs : {false, true}) {
      const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
      WorldSession session = open(model, device, graphs);
      EXPECT_EQ(walk(session, blocks).rgb, want.rgb) << block;
      EXPECT_EQ(device->peak_bytes(), session.plan().peak_bytes);
      EXPECT_EQ(device->launches > latents - 5, graphs) << "the decoder's from its fifth latent frame on";
      if (graphs && block == 3) EXPECT_EQ(walk(session, blocks).rgb, want.rgb) << "a second start";
    }
  }
}

// There is one upload of what the host makes from position and actions, one upload of each noise, a copy of
// the pixels of each latent frame, a wait for each of these copies, and launches of graphs. Nothing else is
// sent, waited for or allocated.
TEST(WorldSessions, ASteadyBlockIsQueuedWhole) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
  WorldSession session = open(model, device);
  walk(session, 20);
  const auto counts = [&] {
    return std::vector<int64_t>{device->allocations, device->uploads, device->fetches, device->waits,
                                device->launches};
  };
  const std::vector<int64_t> before = counts();
  for (int64_t i = 20; i < 30; ++i) next(session, i, {});
  const std::vector<int64_t> after = counts();
  const int64_t steps = 3, latents = 3;
  // There is one fetch for each latent frame's pixels, and one that tells when everything is done: the next
  // block's action is taken then.
  const std::vector<int64_t> of_block = {0, 1 + steps, latents + 1, latents + 1, steps + 1 + latents};
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i] - before[i], 10 * of_block[i]) << i;
}

// Frames that have not arrived at a check are checked for again, and the host's memory is not read before
// they have arrived.
TEST(WorldSessions, FramesComeWhenTheyCome) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  WorldSession cpu = open(model, nullptr);
  const Walk want = walk(cpu, 8);
  const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
  WorldSession session = open(model, device);
  device->looks_in_vain = 3;
  EXPECT_EQ(walk(session, 8).rgb, want.rgb);
}

// No step of a block is waited for: none of its ops is the one that waits.
TEST(WorldSessions, NothingInABlockAsksWhetherItIsFinite) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
  const auto asks = [&](const std::shared_ptr<DeviceMemory>& memory) {
    WorkTally tally;
    const WorkTally::Counting counting(tally);
    open(model, memory);
    int64_t waiting = 0, marking = 0;
    for (const auto& [stage, work] : tally.stages())
      for (const OpWork& w : work) {
        if (w.op == "all_finite") waiting += w.calls;
        if (w.op == "mark_nonfinite") marking += w.calls;
      }
    return std::pair(waiting, marking);
  };
  const auto [waiting_there, marking_there] = asks(device);
  const auto [waiting, marking] = asks(nullptr);
  EXPECT_GT(marking_there, 0);
  EXPECT_EQ(marking, 0);
  // Each check that a block makes on the CPU is a mark on a device. The others belong to a start, from the
  // encoders.
  EXPECT_EQ(waiting - waiting_there, marking_there);
  const int64_t blocks = 3, steps = 3, latents = 3;  // the blocks that are measured
  EXPECT_EQ(marking_there, blocks * (steps + latents));
}

// The error names the stage and the step as on the CPU, none of the block's frames is shown, and a further
// start works.
TEST(WorldSessions, ABlockThatIsNotFiniteShowsNoFrame) {
  const test::WorldModel model({.world = test::WorldModel::world(), .broken = true});
  for (const bool on_device : {false, true}) {
    const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
    WorldSession session = open(model, on_device ? device : nullptr);
    for (int start = 0; start < 2; ++start) {
      session.start(input_of(session), 7);
      EXPECT_THAT(test::refusal([&] { next(session, 0, [](const RgbImage&, int64_t) { FAIL(); }); },
                                ErrorCode::numerical),
                  HasSubstr("denoise: the transformer's output holds NaN or Inf at step 1 of 3"));
    }
  }
}

// If the system allows no page-locked memory, frames come all the same, and no memory stays locked.
TEST(WorldSessions, HostMemoryNeedNotBeLocked) {
  const test::WorldModel model({.world = test::WorldModel::world()});
  std::vector<uint8_t> rgb[2];
  for (const bool fails : {false, true}) {
    const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
    device->pin_fails = fails;
    {
      WorldSession session = open(model, device);
      rgb[fails] = walk(session, 3).rgb;
      EXPECT_EQ(device->pinned, fails ? 0 : 1);
    }
    EXPECT_EQ(device->pinned, 0);
  }
  EXPECT_EQ(rgb[0], rgb[1]);
}

}  // namespace
}  // namespace tachy
