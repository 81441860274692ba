// Tests orders that meet: before the previous ones have begun, in the middle of a block, between two blocks.
#include <cstdlib>

#include "media/picture/jpeg.h"
#include "player_case.h"

namespace tachy::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::DrawnWorld;

// A world whose starts take as long as the test wants.
class GatedWorld final : public DrawnWorld {
 public:
  using DrawnWorld::DrawnWorld;
  void start(const WorldStart& start) override {
    ++waiting;
    while (!open) std::this_thread::sleep_for(1ms);
    image = start.image, seed = start.seed;
    DrawnWorld::start(start);
  }
  std::atomic<int> waiting{0};
  std::atomic<bool> open{false};
  std::shared_ptr<const Picture> image;
  uint64_t seed = 0;
};

class OrdersTest : public PlayerTest {};

TEST_F(OrdersTest, ThatHaveNotBegunJoin) {
  std::vector<uint8_t> red;
  RgbFrame picture_of_mine(16, 16);
  for (size_t i = 0; i < picture_of_mine.rgb.size(); i += 3) picture_of_mine.rgb[i] = 200;
  JpegEncoder().encode(picture_of_mine.view(), red);
  auto made = std::make_unique<GatedWorld>(160, 96, 240);
  GatedWorld& world = *made;
  play(std::move(made));
  player_->start({});
  while (world.waiting == 0) std::this_thread::sleep_for(1ms);
  player_->start({.seed = {}, .prompt = {}, .picture = red});
  player_->start({.seed = 5, .prompt = {}, .picture = {}});
  player_->start({.seed = {}, .prompt = {}, .picture = {}, .reset = true});
  world.open = true;
  while (event("state", "running")["run"] != 2) {
  }
  EXPECT_EQ(world.seed, 5u);
  ASSERT_TRUE(world.image);
  EXPECT_GT(world.image->rgb[0], 150) << "the picture that was sent before the seed";
  EXPECT_EQ(world.waiting, 2) << "one start for all three";
}

TEST_F(OrdersTest, AnInterruptedBlocksFramesAreNotTheNextOnes) {
  open(12, 0.4);
  player_->start({});
  while (outbox_->frames.size() < 2 || world_->blocks_made == 0) std::this_thread::sleep_for(1ms);
  player_->start({});
  while (event("state", "running")["run"] != 2) {
  }
  const int64_t blocks = world_->blocks_made;
  while (world_->blocks_made == blocks) std::this_thread::sleep_for(1ms);  // until the second run has one
  EXPECT_EQ(number_at(frame(), 4, 4), 2u) << "those of the block before it are gone";
}

TEST_F(OrdersTest, BetweenBlocksMakeNoBlockComeSooner) {
  open(12);  // with one block every third of a second
  const auto begin = std::chrono::steady_clock::now();
  player_->start({});
  event("state", "running");
  for (int i = 0; i < 60; ++i) {
    player_->record(i % 2 == 0);
    std::this_thread::sleep_for(10ms);
  }
  const auto blocks = static_cast<double>(world_->blocks_made);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LE(blocks, 3 + seconds * 3);
}

TEST_F(OrdersTest, ItSaysWhetherItBegins) {
  auto made = std::make_unique<GatedWorld>(160, 96, 240);
  GatedWorld& world = *made;
  play(std::move(made));
  EXPECT_FALSE(player_->beginning() || player_->running());
  player_->start({});
  while (world.waiting == 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(player_->beginning() && player_->running());
  world.open = true;
  while (world.blocks_made < 2) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(player_->running());
  EXPECT_FALSE(player_->beginning());
  player_->stop();
  event("state", "stopped");
  for (int i = 0; i < 5000 && player_->running(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(player_->running());
}

TEST_F(OrdersTest, ARecordingThatCannotBeWrittenIsNotTheEnd) {
  open();
  player_->start({});
  event("state", "running");
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", "/proc", 1);
  player_->record(true);
  const json lost = event("recording");
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  EXPECT_EQ(lost["state"], "lost");
  EXPECT_THAT(lost["text"].get<std::string>(), testing::HasSubstr("/proc"));
  const int64_t blocks = world_->blocks_made;
  while (world_->blocks_made < blocks + 3) std::this_thread::sleep_for(1ms);
  player_->record(true);
  event("recording", "on");
}

}  // namespace
}  // namespace tachy::serve
