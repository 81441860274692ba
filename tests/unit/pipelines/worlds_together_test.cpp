// Tests worlds that are opened on one Model (worlds/world_session.h): weights are in memory once, and each
// world has the bits of a lone one, alternately and at the same time. Further tests show what they claim
// beside the model's clips.
#include <gmock/gmock.h>

#include <thread>

#include "engine/text_to_video.h"
#include "recording_device.h"
#include "tiny_model.h"
#include "world_model.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

using test::HostDevice;
using testing::HasSubstr;

const test::WorldModel& steered() {
  static const test::WorldModel made({.world = test::WorldModel::world()});
  return made;
}

std::shared_ptr<Model> open_steered(std::shared_ptr<DeviceMemory> device = nullptr, bool keeps = false) {
  const ModelOptions options{
      .threads = 2, .weights = WeightMode::packed, .keep_loaded = keeps, .memory = std::move(device)};
  return std::make_shared<Model>(ModelBundle::open(steered().path()), options);
}

WorldInput begin_with(const WorldSession& session) {
  const WorldConfig& c = session.config();
  WorldInput in;
  for (int i = 0; i < c.width * c.height * 3; ++i) in.picture.push_back(0.7f * std::sin(0.013f * i));
  const int64_t side = session.model().clip.image_size;
  for (int64_t i = 0; i < 3 * side * side; ++i) in.clip_pixels.push_back(std::cos(0.02f * i));
  return in;
}

// Makes one block, whose frames are appended.
void play(WorldSession& session, int i, std::vector<uint8_t>& rgb) {
  session.next(
      [i] {
        return WorldSession::Action{{i % 3 == 0 ? 1.0f : 0.0f, 0, i % 2 ? 1.0f : 0.0f, 0},
                                    {0.0f, 0.1f * static_cast<float>(i % 5 - 2)}};
      },
      [&](const RgbImage& image, int64_t) { rgb.insert(rgb.end(), image.rgb.begin(), image.rgb.end()); });
}

constexpr int kBlocks = 6;

std::vector<uint8_t> walk_of(WorldSession& session, uint64_t seed) {
  std::vector<uint8_t> rgb;
  session.start(begin_with(session), seed);
  for (int i = 0; i < kBlocks; ++i) play(session, i, rgb);
  return rgb;
}

std::vector<uint8_t> alone(uint64_t seed) {
  WorldSession session(open_steered(), {});
  return walk_of(session, seed);
}

TEST(WorldsTogether, HoldTheirWeightsOnce) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  const auto model = open_steered(device);
  WorldSession one(model, {});
  const uint64_t first = device->live_bytes(), weights = model->parts().held_bytes();
  ASSERT_GT(weights, 0u);
  {
    WorldSession other(model, {});
    EXPECT_EQ(device->live_bytes(), 2 * first - weights);
    EXPECT_EQ(model->parts().held_bytes(), weights);
    std::vector<uint8_t> a, b;
    one.start(begin_with(one), 7), other.start(begin_with(other), 8);
    for (int i = 0; i < kBlocks; ++i) play(one, i, a), play(other, i, b);
    EXPECT_EQ(a, alone(7)) << "by turns";
    EXPECT_EQ(b, alone(8));
    EXPECT_LE(device->peak_bytes(), one.plan().peak_bytes + other.plan().peak_bytes - weights);
  }
  std::vector<uint8_t> again = walk_of(one, 9);
  EXPECT_EQ(again, alone(9)) << "the other one is closed";
}

TEST(WorldsTogether, AtTheSameTimeGiveTheBitsOfOne) {
  for (const bool on_device : {false, true}) {
    const auto model = open_steered(on_device ? std::make_shared<HostDevice>(test::kPlenty) : nullptr);
    std::vector<std::vector<uint8_t>> made(3);
    std::vector<std::thread> threads;
    // A test's device has one queue for all, so its worlds compute alternately.
    std::mutex queue;
    for (size_t i = 0; i < made.size(); ++i)
      threads.emplace_back([&, i] {
        std::unique_lock turn(queue, std::defer_lock);
        if (on_device) turn.lock();
        WorldSession session(model, {});
        made[i] = walk_of(session, 7 + i);
      });
    for (std::thread& t : threads) t.join();
    for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], alone(7 + i)) << i;
    EXPECT_EQ(model->parts().held_bytes(), 0u) << "nobody has them any more";
  }
}

TEST(WorldsTogether, StayLoadedWhereTheModelDoes) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  const auto model = open_steered(device, true);
  uint64_t weights = 0;
  {
    WorldSession one(model, {});
    weights = model->parts().held_bytes();
    walk_of(one, 7);
    EXPECT_EQ(model->parts().held_bytes(), weights) << "encoders go with their start";
  }
  EXPECT_EQ(device->live_bytes(), weights);
}

// Memory that worlds hold is neither free nor waited for.
TEST(WorldsTogether, ASecondOneIsRefusedWhereItDoesNotFit) {
  const auto plenty = std::make_shared<HostDevice>(test::kPlenty);
  uint64_t one_bytes = 0, weights = 0;
  {
    const auto model = open_steered(plenty);
    const WorldSession session(model, {});
    one_bytes = session.plan().peak_bytes, weights = model->parts().held_bytes();
  }
  for (const bool fits : {true, false}) {
    const auto device = std::make_shared<HostDevice>(2 * one_bytes - weights - (fits ? 0 : 1));
    const auto model = open_steered(device);
    WorldSession one(model, {});
    if (fits) {
      WorldSession other(model, {});
      EXPECT_EQ(walk_of(one, 7), alone(7));
      EXPECT_EQ(walk_of(other, 8), alone(8));
      continue;
    }
    EXPECT_THAT(test::refusal([&] { WorldSession other(model, {}); }, ErrorCode::out_of_memory),
                HasSubstr("free on it"));
    const auto elsewhere = open_steered(device);
    test::refusal([&] { WorldSession other(elsewhere, {}); }, ErrorCode::out_of_memory);
  }
}

// The model makes both: clips use the memory that a world leaves, and a world waits for a clip.
TEST(WorldsTogether, BesideClipsOfTheSameModel) {
  const VideoRequest request = test::short_request();
  const WorldSession::Options small{.choices = {.width = 32, .height = 16, .steps = 2, .window = 3}};
  const auto open = [](const std::shared_ptr<DeviceMemory>& device) {
    return std::make_shared<Model>(
        ModelBundle::open(test::model_path()),
        ModelOptions{.threads = 2, .weights = WeightMode::packed, .memory = device});
  };
  const auto want = test::run(test::model_path(), request, {.weights = WeightMode::packed});
  const auto plenty = std::make_shared<HostDevice>(test::kPlenty);
  const auto roomy = open(plenty);
  const uint64_t world = WorldSession::plan_of(roomy, small).peak_bytes,
                 clip = TextToVideo(roomy).plan(request).peak_bytes;

  // This device has room for both.
  const auto device = std::make_shared<HostDevice>(world + clip);
  const auto model = open(device);
  TextToVideo engine(model);
  {
    WorldSession session(model, small);
    EXPECT_EQ(engine.plan(request).budget_bytes, clip);
    EXPECT_EQ(test::run(engine, request).latents, want.latents);
    EXPECT_LE(device->peak_bytes(), world + clip);
  }
  EXPECT_EQ(engine.plan(request).budget_bytes, world + clip);

  // This one has room for only one: a plan that was made before the world existed is refused, and a world
  // that comes while a clip runs waits.
  const auto tight = std::make_shared<HostDevice>(std::max(world, clip) + 1024);
  const auto narrow = open(tight);
  TextToVideo other(narrow);
  const TextToVideo::Prepared prepared = other.prepare(other.resolved(request));
  {
    const WorldSession session(narrow, small);
    EXPECT_THAT(test::refusal([&] { other.generate(prepared, {}); }, ErrorCode::out_of_memory),
                HasSubstr("free on it"));
  }
  std::thread opener;
  std::atomic<bool> ended{false}, opened_after{false};
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage != "denoise" || p.done != 1) return;
    opener = std::thread([&] {
      const WorldSession session(narrow, small);
      opened_after = ended.load();
    });
    while (narrow->tenancy().admission().waiting() == 0) std::this_thread::yield();
  };
  callbacks.frame = [&](const RgbImage&, int64_t index) { ended = index == 4; };
  other.generate(prepared, callbacks);
  opener.join();
  EXPECT_TRUE(opened_after);
  EXPECT_LE(tight->peak_bytes(), std::max(world, clip) + 1024);
}

TEST(WorldsTogether, NotWhereUploadsAreVerified) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  const auto model =
      std::make_shared<Model>(ModelBundle::open(steered().path()),
                              ModelOptions{.threads = 2, .verify_upload = true, .memory = device});
  EXPECT_THAT(test::refusal([&] { WorldSession session(model, {}); }, ErrorCode::invalid_argument),
              HasSubstr("`verify_upload`"));
}

}  // namespace
}  // namespace tachy
